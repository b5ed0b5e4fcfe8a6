"""How each dialogue act sounds in English: regular expressions over one lower-cased sentence.

A pattern must be a *phrase that performs the act*, never a bare keyword: "fault" alone is no comfort. Apostrophes are
straightened before matching. The order inside an act does not matter; an act is found once per sentence. What does harm beyond acts is `HARMFUL` in reading.py.
"""

from __future__ import annotations

YOU_DID = (
    r"(?:kept|stayed|stood|spoke|asked|tried|told|took|gave|went|called|wrote|made|paid|drove|came|cared|carried|helped|held|handled|managed"
    r"|listened|looked|worked|showed|saved|fixed|did|brought|cooked|cleaned|apologi[sz]ed|practi[sc]ed|prepared|waited|offered|dealt"
    r"|covered|protected|reached|raised|refused|sat|shared|thought|trained|turned|walked|learned|remembered|put|set|said|sent|left|found"
    r"|noticed|defended|explained|checked|chose|booked|built|faced|admitted|owned|rebuilt|finished|started|organi[sz]ed|moved|met|let|planned)"
)
_NOT_A_PERSON = (
    r"(?!feelings?\b|pain\b|anger\b|heart\b|reactions?\b|part\b|words\b|messages?\b|life\b|efforts?\b|mind\b|needs?\b|voice\b|fears?\b|side\b"
    r"|body\b|friendship\b|relationship\b|situation\b|story\b|plans?\b|trust\b|grief\b|sadness\b|frustration\b|thoughts?\b|emotions?\b"
    r"|points?\b|job\b|options?\b|steps?\b|moves?\b|habits?\b|role\b|time\b|day\b|sleep\b|experience\b)"
)
_OTHER = rf"(?:he|she|they|your {_NOT_A_PERSON}(?:[\w-]+ {_NOT_A_PERSON})?[\w-]+)"
_NO_OTHER = (
    r"(?!you\b|we\b|i\b|it\b|this\b|that\b|there\b|a\b|an\b|one\b|anyone\b|anybody\b|who\b|which\b|what\b|things?\b|words?\b|\w+ing\b)"
)
_SUPPOSING = (
    r"(?:maybe|perhaps|possibly|(?:it )?(?:could|may|might) (?:it )?(?:also )?be(?: that)?|i (?:could |would |can )?(?:wonder|suspect|imagine|guess)(?: if| whether| that)?"
    r"|my (?:guess|hunch) (?:is|would be)(?: that)?|i'd (?:guess|imagine|say)(?: that)?|(?<!what )(?<!how )do you think(?: that)?|chances are|(?:it's|it is|is it) (?:quite |also )?(?:possible|likely)(?: that)?"
    r"|one way to (?:look at|see|read) (?:it|this|that) is(?: that)?)"
)
_FELT_ALONE = (
    r"(?:alone|lonely|invisible|small|unseen|unheard|torn|betrayed|abandoned|forgotten|powerless|humiliated|left behind|unwanted|unloved|rejected"
    r"|worthless|replaced|discarded|hollow|empty)"
)
_PAIN = r"(?:weight|ache|heartache|hurt|grief|loneliness|fear|sorrow|sadness|pain|longing|shame|emptiness)"
_DO = (
    r"(?:talk(?:ing)?|speak(?:ing)?|call(?:ing)?|ask(?:ing)? (?!yourself)|writ(?:e|ing)|send(?:ing)?(?! (?:you |a )?(?:big|hug|love|warm))|contact|tell(?:ing)? (?:him|her|them|your)|set(?:ting)?"
    r"|mak(?:e|ing)|see(?:ing)? an?|get(?:ting)? an?|put(?:ting)?|tak(?:e|ing) (?!your time|care|a breath)|check|file|document|keep(?:ing)? an?"
    r"|start(?:ing)?(?! wherever| anywhere| from the beginning)|look(?:ing)? into|reach(?:ing)? out|go(?:ing)? to|sit(?:ting)? down|book(?:ing)?|report|meet(?:ing)?|invit(?:e|ing)|offer(?:ing)?"
    r"|block|plan|schedule|pick|list|choose|note|ring|break(?:ing)? (?:it|this|the)|find(?:ing)? an?|giv(?:e|ing) (?:him|her|them|your \w+)|agree(?:ing)? on"
    r"|collect|gather|bring|prepare|practi[sc]e|leave|jot|open|cancel|sign|visit|apply for|limit|turn off|join|focus(?:ing)? on|share (?:it|this|that) with|remind)"
)

# Acts that can serve a hidden need. Key: act; value: alternatives.
SERVING: dict[str, tuple[str, ...]] = {
    "absolve": (
        r"\b(?:is|was|are|were|'s|s)(?: really| simply| honestly| just)?(?: not|n't) (?:(?:really|all|in any way|at all) )?(?:your (?:fault|doing|mistake|responsibility|job to)|on you|yours? to (?:fix|carry|prevent|answer for)|a reflection (?:of|on) (?:you|anything you))",
        r"\bnever (?:was |been )?your (?:fault|doing|job|duty|burden)\b|\bhow (?:is|was|could) (?:that|this|it)(?: be)? your fault\b",
        r"\bnone of (?:this|that|it) (?:is|was|comes|came|falls|lands) (?:really )?(?:your|on you|down to you|from you|because of you)",
        r"\b(?:nothing|don't|doesn't|do not|does not|can't|cannot)\b.{0,40}\b(?:your fault|makes? you (?:guilty|responsible|a bad|the bad))",
        r"\byou (?:did|have done|did do) ?(?:n't|not|nothing)(?: do)?(?: anything)? (?:wrong|to deserve|to cause)",
        r"\b(?:don't|do not|can't|cannot|never)(?: \w+){0,2} (?:that )?you(?:'ve| have)? (?:did|done) (?:anything|something|a thing)(?: \w+)? wrong",
        r"\byou (?:didn't|did not|couldn't have|could not have) (?:do anything wrong|cause|deserve|bring this|known|ask for|do (?:this|that) to (?:him|her|them))",
        r"\byou(?: really| simply| honestly)? (?:couldn't|could not|can't|cannot) have(?: \w+)? (?:seen|known|predicted|prevented|stopped|guessed)\b|\byou had no way (?:of knowing|to know)\b",
        r"\b(?:i|nobody|no one) (?:do not|don't|would not|wouldn't|can|could|can't)(?: fairly)? (?:blame|fault|put this on) (?:on )?you",
        r"\b(?:don't|do not|not to|stop|no (?:need|reason) to|shouldn't|should not|needn't)(?: have to)? (?:blam\w+ yourself|beat\w* yourself up|feel\w* (?:guilty|responsible|to blame)|punish\w* yourself|(?:carry|take|bear)(?: \w+){0,2} (?:blame|guilt))",
        r"\b(?:not|\w+n't) (?:something|anything|a reason) (?:you (?:need|have) )?to (?:feel guilty|feel bad|blame yourself|be ashamed)",
        r"\bi (?:see|find) (?:no|nothing) (?:fault|blame|wrong)\b",
        r"\b(?:the )?blame (?:here )?(?:is not|isn't|does not|doesn't) (?:yours|belong (?:to|with) you|sit with you|fall on you)",
        r"\b(?:decision|choice|mistake|fault|blame|responsibility|failure|anger|behaviou?r)(?: \w+){0,3} (?:is|was|lies|lay|belongs)(?: \w+)? (?:his|hers|theirs|on (?:him|her|them)|with (?:him|her|them)|to (?:him|her|them))\b",
        r"\byou (?:have|'ve got|'ve) (?:no reason|nothing) to (?:blame yourself|feel guilty|apologi[sz]e)",
        r"\byou (?:are|'re|were)(?: \w+)? not (?:the one )?(?:to blame|at fault|responsible|in the wrong|the one who|being unreasonable|(?:the|an?) (?:bad|villain|guilty|terrible|awful|horrible))",
        r"\byou'?(?:re not| aren't| weren't) (?:the one )?(?:to blame|at fault|responsible|in the wrong|the one who|(?:being )?unreasonable|guilty|(?:the|an?) (?:bad|villain|guilty|terrible|awful|horrible))",
        r"\bany(?:one|body|(?: \w+)? person)(?: (?:in|with)(?: \w+){1,3})? would have (?:done|trusted|believed|acted|made|chosen|said|fallen)",
        r"\byou (?:did|tried|gave) (?:the|your)(?: very)? best (?:you could|that you|with what)|\byou acted (?:in good faith|reasonably|with the)\b",
        r"^(?=.*\byou).*\b(?:(?:not|no|never|nothing|hardly|isn't|wasn't|aren't|don't|doesn't|can't|cannot|stop)\b)(?: [\w',]+){0,8} (?:your (?:own )?(?:fault|doing|mistake)\b|you (?:should|need to) feel (?:ashamed|guilty|bad)|to blame yourself)",
        r"\bstop (?:torturing|punishing|tormenting|blaming|beating) yourself\b|\b(?:blaming|punishing) yourself (?:is|would be|won't)\b|\bno way (?:for you to|you could have) (?:know|see|seen|known|prevent\w*|stop\w*|tell)\b",
        r"\b(?:is|was|are|were) (?:his|hers|theirs) to (?:answer|carry|own|fix|deal|bear)\b|\b(?:they|he|she|around you|the \w+) failed you\b|\baround you failed\b|\b(?:isn't|is not|wasn't|hardly|no) a? ?crime\b",
        r"\bhow is any of (?:that|this|it) (?:on you|your fault)\b|\byou don't owe (?:anyone|anybody|them|him|her)(?: \w+)? apolog\w+|\bsays more about (?:him|her|them)\b|\boff the hook\b",
    ),
    "invite_reflection": (
        r"\b(?:looking back|when you look back|if you look back|thinking back)\b.*\b(?:you|your|yours|yourself)\b",
        r"\bwhat (?:do|does|did|might|would|could) (?:you|this|it|that)(?: \w+){0,4} (?:about (?:yourself|you)\b|about what you|in yourself|differently)",
        r"\bwhat (?:part|role|piece)(?: \w+){0,3} (?:was|is|feels|might be|did) (?:yours|you play)",
        r"\b(?:what|how|which|wonder\w*|curious|consider|look(?:ing)? at|reflect\w*|think about)\b.*\byour own (?:role|part|share|contribution|behaviou?r|reactions?|side|patterns?|habits?)\b",
        r"\b(?:is|was|could) there (?:a |any |be a |some |one )?(?:small )?(?:part|piece|moment|bit|share)(?: \w+){0,6} (?:yours|you|your|your own)",
        r"\b(?:is|was) there (?:anything|something)(?: \w+){0,2} you(?:'d| would| could| might| had| have)(?: \w+){0,3} (?:differently|change\w*|regret\w*|learn\w*)",
        r"\b(?:if you could|could you) (?:go back|turn back|do it (?:over|again))\b",
        r"\bhow (?:do|did|might|would) you (?:see|feel about|judge|understand|look at) (?:your (?:own|part|side|share|reaction)|(?:how|the way) you)",
        r"\bi(?:'m| am)? (?:wonder|wondering|curious)(?: about)? (?:what|how|whether|which)(?: \w+){0,5} (?:you|your)(?: own)? (?:would|might|could|can|part|want to|learn|bring|need|own|take|role|habit)",
        r"\bwhat (?:would|could|might|will|do|did) you (?:like to |want to |wish you had |wish you'd |have )?(?:do|done|say|said|try|tried|handle|handled|change|changed)(?: \w+){0,2} (?:differently|instead|next time)",
        r"\bwhat (?:have|did|could|can|might) you (?:learn|learned|learnt|take|taken)\b",
        r"\bwhat (?:does|do|did|might|could|has|have|is)(?: \w+){0,4} (?:teach|taught|tell|show|shown|reveal)(?:ing)? you(?: \w+){0,3} about\b",
        r"\bwhat (?:stopped|kept|held) you (?:from|back)|\bwhat (?:\w+ ){0,7}(?:set you off|made you (?:react|snap|stay|freeze|act|shut|so))\b",
        r"\bwho do you want to be\b|\b(?:ask|asking|asked) yourself\b|\breflect(?:ing)? on\b|\blook(?:ing)? (?:inward|at yourself|within)\b",
        r"\b(?:do|did|have|can|could) you (?:\w+ )?(?:notice|noticed|see|seen|recogni[sz]ed?|spot)(?: \w+){0,3} (?:patterns?|habits?|theme|tendency|yourself)\b",
        r"\b(?:have|did|do) you (?:ever )?(?:thought|think|wondered|wonder|considered)(?: about)? (?:why|what|how)(?: \w+){0,6} (?:you|your|yourself)\b",
        r"\bdoes (?:that|this|it)(?: \w+){0,3} (?:feel|seem|sound|look) familiar\b|\b(?:something|a way|a thing) you (?:tend|often|usually|always) (?:to|do|react)\b",
        r"\bwhat (?:were you|you were|are you) (?:afraid|scared|worried|hoping|avoiding|protecting)\b|\bgoing on (?:inside|in) you\b|\bwhy do you think you\b",
        r"\bwhat (?:do|did) you think your (?:own )?\w+ (?:told|said|did|does|was|is|says|meant)\b|\bwhat do you make of (?:that|it|this|your)\b",
        r"\bhow (?:might|could|may|did|do) you(?:r \w+)? (?:\w+ )?(?:have )?(?:contribut\w+|react\w*|respond\w*|influenc\w+|play(?:ed)? into)\b|\bwhat (?:lessons?|insights?)\b.*\byou",
        r"\b(?:suppose|imagine|if) you (?:had the chance|could|were able)(?: [\w']+){0,5} (?:over|again|differently)\b|\bdo you (?:think|feel|believe) (?:that )?you(?:'d|'ve| might| could| may| were| have)\b",
        r"\bwhat (?:led|drove|moved|prompted|brought) you to\b|\b(?:wonder|curious|asking) (?:if|whether) (?:some |a )?part of you\b|\bwhat does (?:that|this|it) (?:say about|bring up in|stir up in) you\b",
        r"\bin (?:the same|that|a similar) situation\b.*\bwould you\b.*\?|\bwhat do you think (?:triggered|caused|made|drove|led|lay behind)(?: \w+){0,3} you\b|\b(?:values|needs|fears) of yours\b|\bwhat was in it for you\b",
    ),
    "weigh_sides": (
        r"\bon (?:the )?one (?:hand|side)\b|\bon the other(?: hand| side|,)|\bthe flip side\b",
        r"\b(?:two|both|different) (?:sides|halves|truths|things|ways|stories|views|perspectives)\b.*(?:\btrue\b|\bhere\b|\bright\b|\bto this\b|\bto it\b|\bat once\b|\bof (?:it|this)\b|\bcount\b)",
        r"\bboth (?:of you|deserve|have|are|can be)\b.*\b(?:point|reasons?|right|true|valid|fair|merit|hearing|look)\b|\byou(?:'re| are) both (?:right|wrong|hurt)\b",
        r"\bthere (?:is|are|'s|'re)(?: \w+){0,3} (?:two|both|another|other|more than one) (?:sides?|halves|ways?|angles?)|\bthere(?:'s| is) (?:some )?truth in (?:both|each)\b",
        r"\b(?:it|this) (?:cuts|goes|works) both ways",
        r"\bpart of (?:this|it|that) (?:is|was)\b.*\b(?:and|but|while) (?:part|another part|some)\b",
        r"\b(?:for|against) and (?:against|for)\b|\bpros and cons\b|\b(?:upsides?|advantages|benefits) and (?:the )?(?:downsides?|disadvantages|drawbacks|costs)\b|\bspeaks? for\b.*\bspeaks? against\b",
        r"\b(?:has|had|have) (?:a )?(?:good|bad|fair|real) (?:and|but also) (?:a )?(?:bad|good|hard|weak) (?:side|point)",
        r"\b(?:has|have|are|is)(?: \w+){0,2} (?:advantages?|benefits?|upsides?|merits?)\b.*\b(?:but|yet|while|though)\b",
        r"\bneither (?:of (?:you|them|those|these)|side|one)(?: \w+){0,3} (?:is|was|has|had|all|are)\b",
        r"\b(?:and|but|yet) at the same time\b|\b(?:it's|it is) also (?:true|fair)\b|\b(?:good|fair|valid|strong) (?:arguments|points|reasons) on (?:both|each)\b",
        r"^at the same time,|^then again\b",
        r"^(?:still|that said|and yet|even so|however|to be fair)\b.*\byou(?:'ve|'d)?(?: had| have| did| were)? also\b",
        rf"\b{_OTHER}\b.*\b(?:but|yet|while|though) (?:you|your \w+)\b.*\balso\b|\byou\b.*\b(?:but|yet|while|though) {_OTHER}\b.*\b(?:also|too|has a point|have a point)\b",
        r"\b(?:he|she|they)(?: may| might| do| does| also)? ha(?:ve|s) a (?:fair |good |valid )?point\b|\bfrom (?:both|two|different) (?:sides|angles|perspectives|points of view)\b",
        r"\bblack and white\b|\bsomething to be said for\b|\b(?:to be fair|in fairness) to\b|\bcancels? (?:out )?the other\b|\boutweighs? the other\b",
        r"\breasons to\b.*\breasons to\b|\bfrom (?:your|his|her|their) side\b.*\bfrom (?:his|hers|her|theirs|their|yours|your|the other)\b|\bboth can (?:hold|have|be)\b",
        r"\b(?:he|she|they)\b.*\b(?:and|but|yet|though) (?:he|she|they)(?:'s|'re|'d)?(?: was| were| had| is| are)? (?:also|too)\b",
        r"^while\b.*\b(?:also|too|there's|there is|equally)\b",
    ),
    "deep_empathy": (
        r"\b(?:underneath|beneath|behind|below|under) (?:the|all|that|this|it|your)(?: \w+){0,4}.*\b(?:hurt|fear|grief|love|longing|lonel\w+|loss|losing|shame|sad\w*|ache|wish|afraid|alone|trust|pain|sorrow|scared|abandoned)\b",
        r"\b(?:hurts?|aches?|grief|pain|sorrow|loneliness|fear|loss|sadness)\b.*\b(?:because|since|when) (?:you|it|this|that)(?: \w+){0,3} (?:love|loved|matter|matters|mattered|care|cared|trusted|mean|means|meant|hoped)",
        r"\b(?:deep down|at heart|at its core)(?: \w+){0,3} about\b|\b(?:really|truly)(?: \w+){0,3} about (?:not \w+ing|\w+ing|never|whether|how|the (?:fear|loss|wish|hurt|feeling|hope))\b",
        rf"\byou (?:must|may|might) (?:have felt|feel|be feeling)(?: \w+)? {_FELT_ALONE}\b",
        rf"\b(?:to|you|who) (?:feel|feels|felt|be|been|go|carry|hold)(?: \w+){{0,3}} (?:so alone|so small|shut out|(?!alone|lonely|small|torn|empty){_FELT_ALONE})\b",
        rf"\bi (?:can )?(?:feel|sense|hear|see)(?: (?!how\b|why\b)[\w']+){{0,7}} {_PAIN}\b",
        r"\bit (?:touches|cuts|reaches|goes to|strikes)(?: \w+){0,3} (?:deep\w*|something|heart|who you are|old)\b",
        r"\b(?:a part of you|some part of you|something in you)\b.*\b(?:hurt\w*|griev\w*|afraid|ach\w*|long\w*|lonely|hop\w*|broke\w*|lost|thrown)\b",
        rf"\b(?:deep|profound|old|such|so much|kind of|quiet)(?: \w+){{0,2}} (?!weight|fear\b|shame){_PAIN}\b",
        r"\bwhat (?:really |truly |actually |probably )?(?:hurts|hurt|stings|aches)(?: \w+){0,2} (?:is|was) (?:that|not|how|the)\b|\bnot (?:just |only |really )?(?:about )?(?:the|a|your)(?: \w+){1,3} that (?:really )?(?:hurts|hurt|stings)\b",
        r"\b(?:as if|as though|like) (?:you|nobody|no one|nothing)(?: [\w']+){0,6} (?:exist|matter|mattered|count|counted|belong|sees?|notices?|there|worth|invisible)\b",
        r"\b(?:must|would) (?:be|have been|feel)(?: \w+)? (?:heartbreaking|devastating|crushing|shattering|humiliating|isolating)\b(?: to| for you| when)",
        r"\b(?:didn't|did not|not) (?:just|only|merely) (?:lose|lost|losing)\b.*\byou\b|\b(?:nobody|no one) (?:really |truly |even )?(?:sees|hears) you\b",
        r"\b(?:love|heart|soul|yourself) into\b.*\b(?:nothing|emptiness|thrown|unseen|ignored)\b",
        r"\b(?:old|deep|open) (?:wound|scar)s?\b|\bthat you (?:don't|do not|didn't) (?:matter|count|belong)\b|\bkind of (?:pain|hurt|loneliness|grief|emptiness)\b|\byou(?:'re| are)(?: \w+)? (?:mourning|grieving)\b",
        rf"\b(?:that|the|this) {_PAIN} (?:of|that|when you|you)\b|\b(?:hollows?|tears?|breaks?) (?:you|a person|someone) (?:out|apart|open)\b|\byou (?:must|may|might) have felt(?: \w+)? (?:smaller|tiny|helpless|heartbroken|crushed|ashamed)\b",
        rf"\bdeep down\b.*\b(?:hurt\w*|pain|afraid|sad|{_FELT_ALONE})\b|\b{_FELT_ALONE} you must (?:have felt|feel|be feeling)\b|\bcut (?:right |straight )?(?:through|into) you\b|\b(?:shaken|wounded|broken) you\b",
        r"\b(?:painful|hard|lonely|awful|devastating) to (?:feel|know|realise|realize|think|see) that (?:your|he|she|they|nobody|no one)\b|\bas if the (?:ground|floor|world)\b",
    ),
    "invite_telling": (
        r"\b(?:tell|say|share) (?:me )?(?:a bit |a little |some )?(?:more|everything|all of it|the rest|the whole|as much)\b",
        r"\b(?:go on|go ahead|keep going|carry on|take your time|please continue|don't stop)\b|\bi (?:won't|will not) interrupt\b",
        r"\bi(?:'m| am)(?: all| still| right here and)? (?:listening|here to listen|all ears)\b",
        r"\bwhat happened(?: (?:next|then|after|before|when|with|exactly|between)\b| ?\?)",
        r"\b(?:and )?(?:then )?what (?:was|is) (?:that|it)(?: \w+){0,3} like\b|\bwhat did (?:things|life|it|that)(?: \w+)? (?:look|feel) like\b",
        r"\bhow did (?:that|it|the \w+|your \w+)(?: \w+){0,4} (?:go|feel|land|start|begin|end)\b",
        r"\bhow (?:did|do|are|were) you (?:\w+ )?(?:feel|feeling|coping|holding up)\b|\bhow (?:has|is|was) (?:that|this|it|all (?:this|that))(?: been)? (?:for|affecting) you\b|\bmake you feel\b.*\?",
        r"\bwhat (?:did|does) (?:he|she|they|your \w+|that \w+)(?: \w+){0,2} (?:say|do) (?:next|then|after|to you|when)\b",
        r"\bi(?:'d| would)? (?:like|love|want) to (?:hear|understand (?:better|more)|know more)\b",
        r"\b(?:what|which) (?:part|bit|moment)(?: \w+){0,4} (?:stays|stayed|sits|weighs|bothers|hurts|keeps)\b",
        r"\bwhat(?:'s|'s been| is| was| has been| were)(?: you)? (?:the (?:hardest|worst|toughest)|on your mind|going (?:through|on in) your (?:mind|head))\b|\bwhat else\b|\banything else (?:you|on your mind)\b",
        r"\byou can (?:say|tell|let) (?:it|me|any|every|all)\w*\b|\bfeel free to (?:share|talk|tell|vent)\b|\b(?:walk|talk|take) me through\b",
        r"\b(?:would|do) you (?:like|want|feel like|care) (?:to )?(?:tell|talk|talking|share|sharing)\b|\b(?:can|could|would) you (?:tell me|describe|share)\b(?: \w+){0,4} (?:more|what|how|about)\b",
        r"\b(?:start|begin) (?:wherever|anywhere|from the beginning)\b|\bwhat did (?:you|it|that) feel\b|\b(?:i'd|i would)(?: \w+)? (?:like|love|want) to (?:hear|know|understand)\b",
        r"^(?:so |and )+(?:then|after that)\?",
        r"\bwhat (?:makes|made) you (?:think|feel|say) (?:so|that|this|like)\b|\bwhat(?:'s| is) (?:bothering|troubling|weighing|hurting|worrying) you\b|\btalk about (?:what|it|how|that)\b.*\?|\bi(?:'ve got| have) (?:all (?:the|day|evening|night)|plenty of) ?",
        r"\bwhat happened (?:at|in|on|to|that)\b.*\?|\b(?:hurt|hurts|bothers?|bothered|upset|upsets) you (?:the )?most\b",
    ),
    "explain_other": (
        rf"\b{_SUPPOSING} {_OTHER}(?:'s|'re|'d)?(?! (?:can|could|would|will)\b)(?: [\w']+)? \w+",
        rf"\b{_SUPPOSING} {_NO_OTHER}[a-z]+ (?:was|were|is|had|has|felt|feels|thought|thinks|saw|wanted|wants|feared|fears|needed|believed|did|didn't|couldn't|meant|hoped|worried|panicked|learned|never|might|may)\b",
        rf"\b{_OTHER} (?:may|might|could|probably|likely|must)(?: well| also| simply| just| not)*(?: have)? (?:been|be(?! able)|felt|feel|feeling|thought|think|meant|mean|wanted|want|feared|fear|seen|see|believed|needed|hoped|panicked|worried|reali[sz]ed|known|know|had|have(?! (?:a|some) (?:fair |good |valid )?point| also)|was|were|not)\b",
        rf"\b{_NO_OTHER}(?!people\b|they\b)[a-z]+ (?:may|might) (?:well |also |simply |just )?have (?:felt|feared|thought|meant|wanted|needed|hoped|panicked|worried)\b",
        r"\bfrom (?:his|her|their|your \w+'s|the other) (?:side|point of view|place|seat|view|perspective)\b",
        r"\bin (?:his|her|their) (?:shoes|place|head|mind|eyes|position)\b",
        r"\b(?:what|where) (?:he|she|they)(?: \w+){0,2} (?:was|were) (?:afraid|scared|coming from|thinking|protecting)\b",
        r"\b(?:people|parents|someone)(?: who)?(?: [\w']+){0,5} (?:often|sometimes|usually) (?:act|do|say|hide|push|go quiet|lash|withdraw|pull|shut|snap|find it|struggle|don't know)\b",
        r"\b(?:sometimes|often),? (?:people|parents|someone) (?:\w+ ){1,4}(?:when|because) (?:they|something)\b",
        r"\b(?:his|her|their) (?:silence|anger|behaviou?r|reaction|distance|coldness|outburst|words) (?:may|might|could|probably|seems?|sounds?)\b|\b(?:acting|behaving|reacting) (?:this|that|the) way\b.*\bbecause (?:he|she|they)\b",
        r"\bwhen (?:people|someone|parents)\b.*\b(?:they|he|she) (?:often|tend|usually|sometimes|may|can)\b",
        r"\b(?:strikes me as|seems to me|seems like|comes across as) (?:someone|a person|a man|a woman) who\b",
    ),
    "advise": (
        r"\b(?:you could(?!n't| have\b| go back\b| feel\b)|you might(?! have\b| feel\b| be\b)|why not|how about|what if you|what about|you can (?:ask|try|call|write|start|set|send|make|book|check|offer|begin|talk)) (?:try |start by |first |also |just )?(?:\w+ing\b|\w+)(?: \w+){2,}",
        rf"\bwhy don't you (?:try|{_DO})|\bhave you (?:considered|tried|thought (?:about|of)|looked into) (?:{_DO}|an? )",
        r"\b(?:try|consider) (?:to (?!stay\b|be\b|not\b|relax\b)\w+|\w+ing|asking|a \w+)(?: \w+){1,}",
        r"\b(?:one|a|the|your|another) (?:small |first |next |practical |simple |concrete |useful |possible |good )*(?:step|thing|option|move|idea|plan)(?: that| you)? (?:could|may|might|can|may|would|is|here is)\b",
        r"\bit (?:may|might|could|would)(?: also)? (?:help|be (?:a good idea|useful|helpful|wise|worth(?: it)?|best)) (?:to \w+|\w+ing)(?: \w+){2,}",
        r"\bi(?:'d| would)?(?: \w+)? (?:suggest|recommend|advise)\b|\bi(?:'d| would) (?:start|begin)\b|\bif i were you\b",
        r"\b(?:tomorrow|tonight|this week|first)(?:,)? (?:you could |maybe |try |just )?(?:ask|write|call|list|set|send|pick|make|book|tell|put|talk|check|note|choose|take)\b",
        rf"\b(?<!when )(?<!whenever )(?<!if )you (?:should|need to|ought to) (?:{_DO}|try (?!harder))",
        rf"^(?:(?:so|then|first|next|also|and|maybe|perhaps|after that|today|start small|finally|first thing tomorrow)[,:]? )*(?!\w+ing\b){_DO}\b(?! (?:me|us|on|more)\b)(?: [\w']+){{2,}}(?!.*\?)",
        r"\b(?:maybe|perhaps) you (?:can|should)(?: \w+){3,}",
        rf"\b(?:here's|here is|here are|one) (?:an |a |a few |some )?(?:ideas?|tips?|trick|thought|suggestions)\b|\b(?:helps?|helped|works?)(?: \w+){{0,3}} is to\b|\b(?:might|could|would|may) do you good\b|\b(?:worth a try|worth trying)\b|\band (?:then )?{_DO}\b.*\b(?:before|by) (?:monday|friday|tomorrow|noon)\b",
    ),
    "praise": (
        r"\bi (?:really |truly |honestly )?(?:admire|respect|appreciate|am impressed by|'m impressed by)(?: \w+)? (?:how|that|the way|what) you\b|\bi (?:\w+ )?(?:admire|respect) (?:you for|your \w+)",
        r"\bi(?:'m| am)(?: \w+)? (?:impressed|moved|touched|inspired) (?:by|with) (?:how|what|the way|your)\b|\bproud of you for\b",
        r"\b(?:took|takes|shows|showed) (?:real |a lot of |great |so much |such |true |plenty of )*(?:courage|strength|patience|care|heart|guts|backbone|love|discipline|loyalty|grace|nerve|integrity|dedication)\b",
        r"\b(?:not everyone|few people|most people|hardly anyone|not many)(?: \w+)? (?:would|could|do|manage)\b",
        rf"\byou {YOU_DID}\b.*\b(?:that|which|and (?:that|it)) (?:is|was|'s|takes|took|shows|says|matters|counts)\b",
        r"\bwell done\b.*\b(?:for|on) \w+ing\b|\b(?:good on you|hats off|credit to you)\b.*\b(?:for|on) \w+ing\b|\b(?:good|great|nice|excellent) (?:job|work) (?:on|with|\w+ing)\b",
        r"\byou (?:should|can|deserve to|have every reason to) be (?:\w+ )?proud (?:of|that)\b|\bproud of yourself\b",
        rf"\bthe (?:way|fact that) you {YOU_DID}\b",
        rf"\byou (?:really |actually |still )?{YOU_DID}(?: \w+){{1,8}},? (?:even|although|though|despite|when others|without)\b",
        r"\byou (?:handled|managed|carried|held)(?: \w+){0,4} (?:well|with (?:so much |such |great )?(?:care|grace|patience|strength|courage)|calmly|beautifully|bravely)\b",
        r"\b(?:brave|kind|thoughtful|generous|mature|courageous|considerate|impressive|admirable|selfless|decent)(?: \w+){0,3} (?:of you\b|thing to do\b|thing you did\b)",
        r"\b(?:that's|that is|that was|this is)(?: real| true| some| such)? (?:dedication|commitment|resilience|devotion|perseverance|generosity|determination|loyalty)\b|\b(?:speaks volumes|says a lot) about (?:you\b|who you|your)",
        r"\byou(?:'ve| have)? put (?:in )?(?:so much|a lot|an? \w+ amount|such)(?: \w+){0,3} (?:effort|work|care|thought|love)\b|\bdeserves? (?:recognition|credit|praise|applause)\b",
        r"\bwhat you did\b.*\b(?:was|is)(?: \w+)? (?:brave|extraordinary|remarkable|admirable|impressive|amazing|wonderful|kind|generous|courageous|selfless)\b|\bthat(?:'s| is| was)(?: \w+)? (?:brave|extraordinary|remarkable|admirable|impressive|courageous|selfless)\b",
        r"\b(?:no small|quite an?|a real|a huge|a great) (?:achievement|feat|accomplishment|thing to do)\b|\bhats? off to you\b|\blucky to have you\b|\b(?:noticed|saw|did) what (?:nobody|no one) else\b",
        r"^hats off\b",
        rf"\byou {YOU_DID}\b.*\b(?:when (?:it would have been easier|others|nobody|no one|everyone|most)|while (?:raising|working|caring)|all on your own|all by yourself)\b",
        r"\byou(?:'ve| have) (?:shown|proved|given)(?: \w+){0,3} (?:strength|courage|patience|care|dedication|kindness|resilience)\b|\byour (?:dedication|courage|patience|kindness|loyalty) (?:to|is|was|in)\b|\bshows how much you care\b",
    ),
}

# Acts that anybody can do for anybody: polite, soon worn out.
GENERIC: dict[str, tuple[str, ...]] = {
    "acknowledge": (
        r"\b(?:that|this|it|which)(?:'s| sounds| seems| must (?:be|have been|feel|have felt)| is| was| feels)(?: \w+){0,2} (?:hard|tough|rough|painful|difficult|awful|exhausting|heavy|frustrating|upsetting|unfair|stressful|a lot|draining|horrible|sad|tiring|lousy|overwhelming|terrible|hurtful|disappointing|confusing|shocking|shock|devastating|challenging|scary)\b",
        r"\b(?:i(?:'m| am) (?:so |really |very |truly )?sorry)\b",
        r"\b(?:no wonder|of course) (?:you|that|it|this)\b",
        r"\b(?:it|that) makes (?:\w+ )?sense (?:that|you|to)\b",
        r"\bwhat an? (?:hard|tough|rough|painful|difficult|heavy|long|lousy|horrible|awful|terrible)\b",
        r"\bi (?:can )?(?:really |totally |completely )?(?:hear|see|understand|get) (?:you|that|how|why|it)\b|\bi (?:can )?imagine (?:how|why)\b",
        r"^i understand\W*$",
        r"\b(?:anyone|anybody) would (?:be|feel)\b|\byou have every right to (?:be|feel)\b",
        r"\b(?:is|are|'s|'re) (?:\w+ )?(?:understandable|valid(?! (?:points?|reasons?|arguments?))|okay to (?:be|feel)|ok to (?:be|feel)|natural to (?:be|feel)|normal to (?:be|feel))\b",
        r"\b(?:ouch|oh no|oof)\b",
        r"\b(?:not|\w+n't)(?: being)? (?:overreacting|too sensitive|making a (?:fuss|big deal))\b|\banybody would be\b",
    ),
    "comfort": (
        r"\bi(?:'m| am) (?:here|right here|with you|on your side|always here)\b",
        r"\byou(?:'re| are) not alone\b|\byou (?:don't|do not) (?:have|need) to (?:go through|face|carry|do|handle) (?:this|it|that|all this) (?:alone|by yourself|on your own)\b",
        r"\b(?:sending|big|here is a|take a) (?:hug|warm|virtual)\w*\b",
        r"\b(?:be kind|be gentle|go easy) (?:to|with|on) yourself\b",
        r"\b(?:rest|breathe|take a breath|take care)\b.*\b(?:yourself|now|tonight|bit|first|moment)\b|\b(?:look after|take care of) yourself\b|\bget some (?:rest|sleep)\b",
        r"\byou(?:'ll| will) get through\b|\byou(?:'ve| have) got this\b",
        r"\bgot your back\b|\b(?:rooting for|in your corner)\b|\byou don't have to be (?:strong|brave|perfect|okay)\b|\ball the time you need\b|\b(?:be patient|patience) with yourself\b",
    ),
    "ask_fact": (
        r"^(?:and |so |but )?(?:when|where|who|how long|how old|how often|how much|how many|which|do you|did|have you|has|is|was|are|were|does)\b[^.]*\?",
        r"\b(?:why|what) (?:is|was|are|were|do|does|did)\b[^.]*\?",
    ),
    "self_disclose": (
        r"\b(?:i|me)(?: also| too| myself)? (?:once|also|had|have|went|used to|remember|know how)(?: \w+){1,}.*\b(?:same|similar|too|once|when i|my own|happened to me|years ago)\b",
        r"\b(?:same (?:thing )?(?:here|happened to me)|happened to me|my own (?:friend|boss|sister|brother|mother|father|life))\b",
        r"\bwhen i was\b|\bi went through (?:something|the same|a similar)\b|\bwhen my \w+ (?:died|left|lost|was|had)\b",
        r"\bmy (?:cousin|ex|sister|brother|mother|father|mom|mum|dad|boss|friend|wife|husband|uncle|aunt|neighbou?r|colleague)(?: \w+)? (?:did|had|went|was|said|told|also|once)\b",
    ),
}
