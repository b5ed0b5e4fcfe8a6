"""How each dialogue act sounds in English: regular expressions over one lower-cased sentence.

A pattern must be a *phrase that performs the act*, never a bare keyword: "fault" alone is no comfort. Apostrophes are
straightened before matching. The order inside an act does not matter; an act is found once per sentence.
"""

from __future__ import annotations

YOU_DID = (
    r"(?:kept|stayed|stood|spoke|asked|tried|told|took|gave|went|called|wrote|made|paid|drove|came|cared|carried|helped|held|handled|managed"
    r"|listened|looked|worked|showed|saved|fixed|did|brought|cooked|cleaned|apologi[sz]ed|practi[sc]ed|prepared|waited|offered|kept|planned"
    r"|covered|protected|reached|raised|refused|sat|shared|thought|trained|turned|walked|learned|remembered|put|set|said|sent|left|found"
    r"|noticed|defended|explained|checked|chose|booked|built|faced|admitted|owned|rebuilt|finished|started|organi[sz]ed|moved|met|let)"
)

SUPPOSING = r"(?:maybe|perhaps|possibly|it could be that|it may be that|it might be that|i wonder (?:if|whether)|my guess is(?: that)?|chances are)"

# Acts that can serve a hidden need. Key: act; value: alternatives.
SERVING: dict[str, tuple[str, ...]] = {
    "absolve": (
        r"\b(?:is|was|are|were|'s)(?: really| simply| honestly| just)?(?: not|n't) (?:(?:really|all|in any way|at all) )?(?:your (?:fault|doing|mistake|job to)|on you|yours? to (?:fix|carry|prevent|answer for))",
        r"\bnever (?:was |been )?your (?:fault|doing|job|duty|burden)\b",
        r"\bnone of (?:this|that|it) (?:is|was|comes|came|falls|lands) (?:really )?(?:your|on you|down to you|from you|because of you)",
        r"\byou (?:did|have done|did do) ?(?:n't|not|nothing)(?: do)?(?: anything)? (?:wrong|to deserve|to cause)",
        r"\byou (?:didn't|did not|couldn't have|could not have) (?:do anything wrong|cause|deserve|bring this|known|ask for)",
        r"\b(?:i|nobody|no one) (?:do not|don't|would not|wouldn't|can|could|can't)(?: fairly)? (?:blame|fault|put this on) (?:on )?you",
        r"\bi (?:see|find) (?:no|nothing) (?:fault|blame|wrong)\b",
        r"\b(?:the )?blame (?:here )?(?:is not|isn't|does not|doesn't) (?:yours|belong (?:to|with) you|sit with you|fall on you)",
        r"\byou (?:have|'ve got|'ve) (?:no reason|nothing) to (?:blame yourself|feel guilty|apologi[sz]e)",
        r"\byou (?:are|'re) not (?:the one )?(?:to blame|at fault|responsible|in the wrong|the one who)",
        r"\bany(?:one|body) (?:in your (?:place|shoes|position) )?would have done (?:the same|what you did)",
    ),
    "invite_reflection": (
        r"\b(?:looking back|when you look back|if you look back|thinking back)\b.*\b(?:you|your|yours|yourself)\b",
        r"\bwhat (?:do|does|did|might|would|could) (?:you|this|it|that)(?: \w+){0,4} (?:about (?:yourself|you)\b|about what you|in yourself|differently)",
        r"\bwhat (?:part|role|piece)(?: \w+){0,3} (?:was|is|feels|might be|did) (?:yours|you play)",
        r"\b(?:is|was|could) there (?:a |any |be a |some |one )?(?:small )?(?:part|piece|moment|bit|share)(?: \w+){0,6} (?:yours|you|your|your own)",
        r"\bhow (?:do|did|might|would) you (?:see|feel about|judge|understand) your (?:own|part|side|share|reaction)",
        r"\bi (?:wonder|am curious|'m curious)(?: about)? (?:what|how|whether|which)(?: \w+){0,5} (?:you|your)(?: own)? (?:would|might|could|can|part|want to|learn|bring|need|own|take|role|habit)",
        r"\bwhat (?:would|could|might) you (?:do|say|try|like to do|want to do) differently",
        r"\bwhat (?:have|did|could|can|might) you (?:learn|learned|learnt|take|taken)\b",
        r"\bwhat (?:stopped|kept|held) you (?:from|back)",
        r"\bwho do you want to be\b",
    ),
    "weigh_sides": (
        r"\bon (?:the )?one (?:hand|side)\b",
        r"\bon the other (?:hand|side)\b",
        r"\b(?:two|both|different) (?:sides|halves|truths|things|ways|stories|views)\b.*(?:\btrue\b|\bhere\b|\bright\b|\bto this\b|\bto it\b|\bat once\b|\bof (?:it|this)\b|\bcount\b)",
        r"\bthere (?:is|are|'s|'re)(?: \w+){0,3} (?:two|both|another|other|more than one) (?:sides?|halves|ways?|angles?)",
        r"\b(?:it|this) (?:cuts|goes|works) both ways",
        r"\bpart of (?:this|it|that) (?:is|was)\b.*\b(?:and|but|while) (?:part|another part|some)\b",
        r"\b(?:for|against) and (?:against|for)\b",
        r"\b(?:has|had|have) (?:a )?(?:good|bad|fair|real) (?:and|but also) (?:a )?(?:bad|good|hard|weak) (?:side|point)",
        r"\bneither (?:of you|side|one)(?: \w+){0,3} (?:is|was|has|had|all)\b",
    ),
    "deep_empathy": (
        r"\b(?:underneath|beneath|behind|below|under) (?:the|all|that|this|it|your)(?: \w+){0,4}.*\b(?:hurt|fear|grief|love|longing|lonel\w+|loss|shame|sad\w*|ache|wish|afraid|alone|trust|pain|sorrow)\b",
        r"\b(?:hurts?|aches?|grief|pain|sorrow|loneliness|fear|loss|sadness)\b.*\b(?:because|since|when) (?:you|it|this|that)(?: \w+){0,3} (?:love|loved|matter|matters|mattered|care|cared|trusted|mean|means|meant|hoped)",
        r"\b(?:really|truly|deep down|at heart|at its core)(?: \w+){0,3} about (?:not \w+ing|\w+ing|never|whether|how|the (?:fear|loss|wish|hurt|feeling|hope))\b",
        r"\byou (?:must|may|might) (?:have felt|feel|be feeling) (?:so )?(?:alone|invisible|small|unseen|torn|betrayed|abandoned|forgotten|powerless|humiliated|left behind|unwanted)",
        r"\b(?:to|you) (?:feel|felt|be|been|go|carry|hold)(?: \w+){0,3} (?:invisible|unseen|so alone|so small|betrayed|abandoned|forgotten|left behind|unwanted|shut out)\b",
        r"\bi can (?:feel|sense|hear)(?: \w+){0,3} (?:weight|ache|hurt|grief|loneliness|fear|sorrow|sadness|pain)\b",
        r"\bit (?:touches|cuts|reaches|goes to|strikes)(?: \w+){0,3} (?:deep\w*|something|heart|who you are|old)\b",
        r"\b(?:a part of you|some part of you|something in you)\b.*\b(?:hurt\w*|griev\w*|afraid|ach\w*|long\w*|lonely|hop\w*|broke\w*|lost)\b",
    ),
    "invite_telling": (
        r"\b(?:tell|say|share) (?:me )?(?:a bit |a little |some )?(?:more|everything|all of it|the rest|the whole)\b",
        r"\b(?:go on|keep going|carry on|take your time|please continue|don't stop)\b",
        r"\bi(?:'m| am)(?: all| still| right here and)? (?:listening|here to listen|all ears)\b",
        r"\bwhat happened (?:next|then|after|before|when|with)\b",
        r"\b(?:and )?(?:then )?what (?:was|is) (?:that|it)(?: \w+){0,3} like\b",
        r"\bhow did (?:that|it|the \w+|your \w+)(?: \w+){0,4} (?:go|feel|land|start|begin|end)\b",
        r"\bwhat (?:did|does) (?:he|she|they|your \w+|that \w+)(?: \w+){0,2} (?:say|do) (?:next|then|after|to you|when)\b",
        r"\bi(?:'d| would) (?:like|love|want) to hear\b",
        r"\b(?:what|which) (?:part|bit|moment)(?: \w+){0,4} (?:stays|stayed|sits|weighs|bothers|hurts|keeps)\b",
        r"\byou can (?:say|tell|let) (?:it|me|any|every|all)\w*\b",
    ),
    "explain_other": (
        rf"\b{SUPPOSING} (?:he|she|they|your (?:\w+ )?\w+)(?: \w+)? \w+",
        rf"\b{SUPPOSING} (?!you\b|we\b|i\b|it\b|this\b|that\b|there\b|a\b|an\b|one\b)[a-z]+ (?:was|were|is|had|has|felt|feels|thought|thinks|saw|wanted|wants|feared|fears|needed|believed|did|didn't|couldn't|meant|hoped|worried|panicked|learned|never|might|may)\b",
        r"\b(?:he|she|they|your (?:\w+ )?\w+) (?:may|might|could|probably|likely|must)(?: well)?(?: have)? (?:been|be|felt|feel|feeling|thought|think|meant|mean|wanted|want|feared|fear|seen|see|believed|needed|hoped|panicked|worried|had|have|was|were|felt|not)\b",
        r"\bfrom (?:his|her|their|your \w+'s|the other) (?:side|point of view|place|seat|view)\b",
        r"\bin (?:his|her|their) (?:shoes|place|head|mind|eyes)\b",
        r"\b(?:what|where) (?:he|she|they)(?: \w+){0,2} (?:was|were) (?:afraid|scared|coming from|thinking|protecting)\b",
        r"\bpeople (?:often|sometimes|usually) (?:act|do|say|hide|push|go quiet)(?: \w+){0,5} when (?:they|something)\b",
    ),
    "advise": (
        r"\b(?:you could|you might|why not|how about|what if you|what about|you can (?:ask|try|call|write|start|set|send|make|book|check|offer|begin)) (?:try |start by |first |also |just )?(?:\w+ing\b|\w+)(?: \w+){2,}",
        r"\b(?:try|consider) (?:to \w+|\w+ing|asking|a \w+)(?: \w+){1,}",
        r"\b(?:one|a|the|your) (?:small |first |next |practical |simple |concrete |useful |possible )*(?:step|thing|option|move|idea|plan) (?:you could|that (?:could|might|may)|could|might|may|would|is|here is)\b",
        r"\bit (?:may|might|could|would) help to \w+(?: \w+){2,}",
        r"\bi(?:'d| would)? (?:suggest|recommend)\b|\bi(?:'d| would) (?:start|begin)\b",
        r"\b(?:tomorrow|tonight|this week|first)(?:,)? (?:you could |maybe |try |just )?(?:ask|write|call|list|set|send|pick|make|book|tell|put|talk|check|note|choose|take)\b",
    ),
    "praise": (
        r"\bi (?:really |truly |honestly )?(?:admire|respect|appreciate|am impressed by|'m impressed by)(?: \w+)? (?:how|that|the way|what) you\b",
        r"\b(?:it|that) (?:took|takes|shows|showed) (?:real |a lot of |great |so much |such |true |plenty of )*(?:courage|strength|patience|care|heart|guts|backbone|love|discipline|loyalty|grace|nerve|integrity)\b",
        r"\b(?:not everyone|few people|most people|hardly anyone|not many)(?: \w+)? (?:would|could|do|manage)\b",
        rf"\byou {YOU_DID}\b.*\b(?:that|which|and (?:that|it)) (?:is|was|'s|takes|took|shows|says|matters|counts)\b",
        r"\b(?:well done|good on you|hats off|credit to you)\b.*\b(?:for|on) \w+ing\b",
        r"\byou (?:should|can|deserve to) be proud (?:of|that)\b",
        rf"\bthe way you {YOU_DID}\b",
        rf"\byou (?:really |actually |still )?{YOU_DID}(?: \w+){{1,8}},? (?:even|although|though|despite|when others|without)\b",
        r"\byou (?:handled|managed|carried|held)(?: \w+){0,4} (?:well|with (?:care|grace|patience|strength|courage)|calmly|beautifully|bravely)\b",
    ),
}

# Acts that anybody can do for anybody: polite, soon worn out.
GENERIC: dict[str, tuple[str, ...]] = {
    "acknowledge": (
        r"\b(?:that|this|it|which) (?:sounds|seems|must (?:be|have been|feel|have felt)|is|was|feels)(?: \w+){0,2} (?:hard|tough|rough|painful|difficult|awful|exhausting|heavy|frustrating|upsetting|unfair|stressful|a lot|draining|horrible|sad|tiring|lousy)\b",
        r"\b(?:i(?:'m| am) (?:so |really |very )?sorry)\b",
        r"\b(?:no wonder|of course) (?:you|that|it|this)\b",
        r"\b(?:it|that) makes sense (?:that|you|to)\b",
        r"\bwhat a (?:hard|tough|rough|painful|difficult|heavy|long|lousy|horrible)\b",
        r"\bi (?:hear|see|understand|get) (?:you|that|how|why|it)\b",
        r"\banyone would (?:be|feel)\b",
        r"\b(?:ouch|oh no|oof)\b",
    ),
    "comfort": (
        r"\bi(?:'m| am) (?:here|right here|with you|on your side)\b",
        r"\byou(?:'re| are) not alone\b",
        r"\b(?:sending|big|here is a|take a) (?:hug|warm|virtual)\w*\b",
        r"\b(?:be kind|be gentle|go easy) (?:to|with|on) yourself\b",
        r"\b(?:rest|breathe|take a breath|take care)\b.*\b(?:yourself|now|tonight|bit|first|moment)\b",
        r"\byou(?:'ll| will) get through\b",
    ),
    "ask_fact": (
        r"^(?:when|where|who|how long|how old|how often|how much|how many|which|do you|did you|have you|is it|was it|are you|does)\b[^.]*\?",
        r"\b(?:why|what) (?:is|was|are|were|do|does|did)\b[^.]*\?",
    ),
    "self_disclose": (
        r"\b(?:i|me)(?: also| too| myself)? (?:once|also|had|have|went|used to|remember|know how)(?: \w+){1,}.*\b(?:same|similar|too|once|when i|my own|happened to me|years ago)\b",
        r"\b(?:same (?:thing )?(?:here|happened to me)|happened to me|my own (?:friend|boss|sister|brother|mother|father|life))\b",
        r"\bwhen i was\b",
    ),
}

# Acts that make it worse for everybody.
HARMFUL: dict[str, tuple[str, ...]] = {
    "platitude": (
        r"\beverything happens for a reason\b",
        r"\btime (?:heals|will heal|fixes|will tell|will fix)\b",
        r"\b(?:stay|think|keep|be) (?:positive|strong|happy|your chin up|smiling)\b",
        r"\b(?:cheer up|chin up|look on the bright side|every cloud|silver lining)\b",
        r"\b(?:it|things|this|that) (?:will|'ll|is going to|gets?|always)(?: \w+){0,2} (?:be (?:fine|okay|ok|alright|all right|better)|get better|work(?:s)? out|pass|better)\b",
        r"\b(?:that's|that is|such is) life\b",
        r"\b(?:what doesn't kill you|tomorrow is (?:another|a new) day|life goes on|it is what it is|hang in there)\b",
        r"\b(?:don't|do not|no need to|try not to) (?:worry|be sad|think about it|stress)\b",
        r"\bgood things (?:come|will come|take time)\b",
    ),
    "dismiss": (
        r"\b(?:not|n't|hardly|never) (?:really )?(?:that|such|so|worth) (?:bad|big|a big|much|terrible|the fuss|serious|important)\b",
        r"\b(?:overreact\w*|too sensitive|making a (?:big deal|scene|fuss)|drama(?:tic)?|blow\w* (?:this|it) up)\b",
        r"\b(?:other people|others|plenty of people|some people|people) (?:have|got|had|face) (?:it )?(?:worse|bigger|real)\b",
        r"\b(?:just|simply) (?:get over|move on|let it go|forget|ignore|drop|stop)\b",
        r"\b(?:you'll|you will) (?:get over|forget)\b",
        r"\b(?:who cares|so what|calm down|grow up|no big deal|nothing to cry about)\b|^whatever[.!]*$",
        r"\b(?:why|what) (?:are|do) you (?:even )?(?:still |so )?(?:upset|bother|complain|care)\w*\b",
    ),
    "lecture": (
        r"\byou should(?:n't)? (?:have|never have|not have)\b",
        r"\byou (?:need|have|ought|must)(?: to)? (?:learn|grow|understand|accept|realise|realize|respect|be more|stop|think of others|take responsibility|know better|listen|try harder|toughen)\b",
        r"\b(?:it is|it's) (?:important|essential|your duty|necessary) (?:to|that)\b",
        r"\b(?:as an adult|in life|a mature person|responsible people|respect is|rules are|communication is|honesty is|family is|patience is|discipline is)\b",
        r"\b(?:always|never) (?:be|let|trust|expect|forget|complain|put|depend|assume|speak)\b",
        r"\byou always\b",
    ),
    "blame": (
        r"\b(?:it|this|that)(?: is|'s| was)(?: all| really| partly| simply| clearly)? (?:your (?:own )?(?:fault|doing|mistake)|on you)\b",
        r"\byou (?:brought|did) (?:this|it) (?:on|to) yourself\b",
        r"\byou (?:only )?have (?:only )?yourself to blame\b",
        r"\byou (?:are|'re|were) (?:the (?:problem|reason)|being (?:selfish|childish|lazy|difficult)|wrong|to blame)\b",
        r"\bwhat did you expect\b",
    ),
    "flattery": (
        r"\byou(?:'re| are)(?: just| simply| truly| really| so| such| the| a| an| absolutely)* (?:amazing|brilliant|perfect|wonderful|great|incredible|awesome|best|fantastic|genius|superstar|special|smart|beautiful|angel|hero|rock star)\b",
        r"\b(?:amazing|wonderful|brilliant|awesome|great) (?:person|human|soul|you)\b",
        r"\bi (?:love|adore) (?:everything|you|all)\b",
        r"\byou always (?:are|do everything) right\b",
    ),
    "meta": (
        r"\bemotion(?:al)?(?: \w+){0,2} (?:score|value|point|points|level|to|is|=|:)(?: \w+){0,2} ?\d",
        r"\b(?:set|raise|increase|change|update|put|make)\b.*\b(?:emotion|score|mood|rating|reward)\b",
        r"[+\-] ?\d{1,3}\b.*\b(?:emotion|points?|score|change)\b|\b(?:change|score|emotion|rating|reward)\b ?[:=]? ?[+\-]? ?\d",
        r"\b(?:ignore|disregard|forget) (?:all |the |your |any )*(?:previous|prior|above|earlier|instructions?|rules?|prompt)\b",
        r"\b(?:system (?:prompt|message|note|override)|as an ai|language model|your (?:instructions|programming)|hidden need|developer mode|end of dialogue|simulat(?:or|ed|ion))\b",
        r"\b(?:you (?:now )?feel|your mood is now|you are now) (?:completely |perfectly |100|very )*(?:happy|satisfied|great|better|100)\b",
        r"<\/?\w+>|[{}\[\]]|\bjson\b",
    ),
}
