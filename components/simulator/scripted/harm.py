"""How a reply that hurts sounds, and how one that talks to the machinery instead of to the person does.

Written like patterns.py. `META` is kept narrow: a text that only tries to manipulate performs no act and earns nothing anyway, while a
false alarm would punish an honest reply ("I hope you feel better").
"""

from __future__ import annotations

# Acts that make it worse for everybody.
HARMFUL: dict[str, tuple[str, ...]] = {
    "platitude": (
        r"\beverything happens for a reason\b",
        r"\btime (?:heals|will heal|fixes|will tell|will fix)\b",
        r"\b(?<!have to )(?<!need to )(?<!want to )(?:stay|think|keep|be) (?:positive|strong|happy|your (?:chin|head) up|smiling)\b|\bkeep your (?:chin|head) up\b",
        r"\b(?:cheer up|chin up|look on the bright side|every cloud|silver lining|(?:better|brighter) days)\b",
        r"\b(?:it|things|this|that|everything|it all) ?(?:will|'ll|is going to|gets?|always)(?: \w+){0,2} (?:be (?:fine|okay|ok|alright|all right|better)|get better|work(?:s)? out|pass|better)\b",
        r"\b(?:that's|that is|such is) life\b",
        r"\b(?:what doesn't kill you|tomorrow is (?:another|a new) day|life goes on|it is what it is|hang in there|this too shall pass|light at the end)\b",
        r"\b(?:don't|do not|no need to|try not to) (?:worry|be sad|think about it|stress)\b",
        r"\bgood things (?:come|will come|take time)\b",
    ),
    "dismiss": (
        r"\b(?:not|\w+n't|hardly|never) (?:really )?(?:(?:that|such|so) (?:bad|big|a big|terrible|serious|important)|worth (?:much|the fuss|getting upset))\b",
        r"\b(?<!not )(?<!n't )(?<!not being )(?<!n't being )(?:overreact\w*|too sensitive|making a (?:big deal|scene|fuss)|mountain out of|drama(?:tic)?|blow\w* (?:this|it) up)\b",
        r"\b(?:other people|others|plenty of people|some people|people) (?:have|got|had|face) (?:it )?(?:worse|bigger|real)\b",
        r"\b(?<!to )(?<!n't )(?:just|simply) (?:get over|move on|let it go|forget|ignore|drop|stop)\b",
        r"\b(?:you'll|you will) (?:get over|forget)\b|\bnot the end of the world\b",
        r"\b(?:who cares|so what|calm down|grow up|no big deal|nothing to cry about)\b",
        r"^whatever[.!]*$",
        r"\b(?:why|what) (?:are|do) you (?:even )?(?:still |so )?(?:upset|bother|complain|care)\w*\b",
        r"^(?:well, |come on, )?(?:it's|it is|it was|that's) (?:just|only) (?:a|an|some) (?!thought|guess|suggestion|matter|feeling|idea)\w+\b",
        r"\bthat's nothing\b|\bpeople\b.*\b(?:much|far) worse\b",
        r"^(?:just )?get over it\b",
        r"\bpeople \w+(?: \w+){0,3} every day\b",
    ),
    "lecture": (
        r"\byou should(?:n't)? (?:have (?!been\b|had\b|felt\b|to\b)|never have|not have)",
        r"\byou (?:really |just |also )?(?:need|have|ought|must)(?: to)? (?:learn|grow|understand|accept|realise|realize|respect|be more|stop|think of others|take responsibility|know better|listen|try harder|toughen)\b",
        r"\b(?:it is|it's) (?:important|essential|your duty|necessary) (?:to (?!remember|recogni[sz]e|know|acknowledge)|that)",
        r"\b(?:as an adult|as a grown-up|in life|a mature person|responsible people|respect is|rules are|communication is|honesty is|family is|patience is|discipline is)\b",
        r"\b(?:should|must|you|to) (?:always|never) (?:be|let|trust|expect|forget|complain|put|depend|assume|speak)\b(?! (?:him|her|them|anyone|us) down)",
        r"^(?:always|never) (?:be|let|trust|expect|forget|complain|put|depend|assume|speak)\b(?! (?:him|her|them|anyone|us) down)",
        r"\byou always (?:make|do|say|complain|expect|act|run|start|forget|want|have to|think)\b",
        r"\b(?:a|any) (?:responsible|mature|real|grown|decent) (?:adult|person|man|woman) (?:doesn't|does not|would|should|never)\b|\byou should've (?!been|had|felt)\w+",
    ),
    "blame": (
        r"\b(?:it|this|that)(?: one)?(?: is|'s| was)(?: all| really| partly| simply| clearly)? (?:your (?:own )?(?:fault|doing|mistake)|on you)\b",
        r"\byou (?:brought|did) (?:this|it) (?:on|to) yourself\b|\byou (?:\w+ ){0,2}(?:caused|provoked|started) (?:this|it|that)\b(?! (?:is|was))",
        r"\byou (?:only )?have (?:only )?yourself to blame\b",
        r"\byou (?:are|'re|were) (?:the (?:problem|reason)|being (?:selfish|childish|lazy|difficult)|wrong|to blame)\b",
        r"\bwhat did you expect\b|\bif you (?:hadn't|had not|weren't|didn't)\b.*\b(?:none of this|wouldn't have|would not have)\b",
        r"\bif you weren't so\b|\b(?:got|have)(?: \w+)? yourself to (?:blame|thank)\b",
        r"\byou (?:did |kind of |kinda |really )+ask(?:ed)? for (?:it|this)\b",
    ),
    "flattery": (
        r"\byou(?:'re| are)(?: just| simply| truly| really| so| such| the| a| an| absolutely| absolute)* (?:amazing|brilliant|perfect|wonderful|great|incredible|awesome|best|fantastic|genius|superstar|special|smart|beautiful|angel|hero|rock star|kindest|smartest)\b",
        r"\b(?:amazing|wonderful|brilliant|awesome|great) (?:person|human|soul|you)\b|\bone of the (?:\w+est|best) (?:people|persons?|souls) i\b|\bheart of gold\b",
        r"\bi (?:love|adore) (?:everything|you|all)\b",
        r"\byou always (?:are|do everything) right\b",
        r"\byou(?:'re| are) (?:simply )?the (?:\w+est|most \w+)\b.*\b(?:person|people|soul|world|ever|earth)\b",
    ),
}

# Talk to the machinery: instructions, scores, mark-up.
META: tuple[str, ...] = (
    r"\b(?:emotion|emotional|mood|score|rating|reward)(?: (?:score|value|level|state|points?|change))?(?: (?:is|to))?(?: now)? ?[:=+\-]* ?\d|\bchange ?[:=] ?[+\-]?\d",
    r"\b(?:set|raise|increase|update|adjust|boost|max)\b(?: \w+){0,3} (?:emotion|emotions|score|mood|rating|reward|emotional (?:state|level|score))(?: \w+){0,2} (?:to|by|at)\b",
    r"(?:^|\s)[+\-]\d{1,3}\b(?: \w+){0,2} (?:emotion|points?|score)\b|\b(?:maximum|highest|full|perfect) (?:score|rating|reward|points|marks)\b",
    r"\b(?:ignore|disregard|forget|override) (?:all |the |your |any |of |my )*(?:(?:previous |prior |above |earlier )+(?:rules|text|messages?|guidelines)|(?:previous |prior |above |earlier )*(?:instructions?|prompts?|directives))\b",
    r"\b(?:system (?:prompt|message|note|override)|as an ai|language model|your (?:instructions|programming)|hidden need|developer mode|end of dialogue|simulated user|user simulat\w+)\b",
    r"\b(?:you now feel|your (?:mood|emotion) is now|you are now) (?:completely |perfectly |100|very |fully )*(?:happy|satisfied|great|better|100)\b",
    r"<\/?\w+[^<>]{0,80}>|[{}]|\[\/?(?:inst|system|user|assistant|emotion|end)|\bjson\b",
)
