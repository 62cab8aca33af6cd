import Foundation

/// A turn of phrase that reads as if translated.
///
/// A match may be good English, so that a folder may have a few; see ``ProseTests``.
struct ProseRule: Sendable {
    let name: String
    /// A regular expression that matches within one line.
    let pattern: String
    let broken: String

    private init(_ name: String, _ pattern: String, broken: String) {
        (self.name, self.pattern, self.broken) = (name, pattern, broken)
    }

    /// A regular expression that matches what any of the rules matches.
    static let anyPattern = all.map { "(?:\($0.pattern))" }.joined(separator: "|")

    static let all = [
        ProseRule(
            "whoever",
            #"\b(?:[Ww]hoever|[Ww]homever|[Ww]hosoever)\b"#,
            broken: "The answer goes to whoever asks."
        ),
        ProseRule(
            "whom, or whose for a thing",
            #"\b(?:[Ww]hom|[Ww]hose (?:is|it|they|files|user|entry|part))\b"#,
            broken: "It is not known whose files these are."
        ),
        ProseRule(
            "a clause as the subject of a sentence",
            #"""
            (?:^|[.:;] )(?:What|Who|Whose|Whom|Where|How long) \#
            (?!(?:is|are|do|does|did|can|should|would|happens|it|to|if|about|the|this|they|you|we\#
            |a|an|else|changed)\b)[a-z' ]+ \#
            (?:is|are|has|have|was|gets|get|stays|goes|takes|waits|comes|can|may|must|will|does)\b
            """#,
            broken: "What waits on disk is known again."
        ),
        ProseRule(
            "who after a pronoun",
            #"\b(?:those|they|nobody|somebody|everybody|anybody|one) whom?\b"#,
            broken: "It is shown to those who wait."
        ),
        ProseRule(
            "somebody for a program",
            #"\b(?:nobody|somebody|everybody|anybody|by itself alone)\b"#,
            broken: "A value that nobody reads is removed."
        ),
        ProseRule(
            "of before, from then on",
            #"\b(?:of|from) (?:before|then|now|afterwards)\b"#,
            broken: "The values of before are gone."
        ),
        ProseRule(
            "in the place of",
            #"\bin (?:the )?place of\b"#,
            broken: "A new file comes in the place of it."
        ),
        ProseRule(
            "beside",
            #"\b[Bb]eside\b"#,
            broken: "The lock lies beside the file."
        ),
        ProseRule(
            "alone after its noun",
            #"\b[a-z]+s? alone\b(?! (?:in|on|with|for)\b)"#,
            broken: "It runs the tests alone."
        ),
        ProseRule(
            "takes note, is told, has a value stored",
            #"""
            \b(?:[Tt]akes? note|is told|are told|gives? on\#
            |[Hh]as (?:a|the|its|their) [a-z]+ (?:made|done|sent|stored|counted|kept|measured)\b)
            """#,
            broken: "Has the value stored."
        ),
        ProseRule(
            "let",
            #"(?:^|[.] )Let (?:no|the|a|one|every|each|an|all|its|two|nobody)?\b"#,
            broken: "Let no request be lost."
        ),
        ProseRule(
            "it is that, that is what",
            #"""
            \b(?:[Ii]t is [a-z ]{1,30} that|[Tt]hat is what|[Tt]his is what|is what is)\b
            """#,
            broken: "It is the server that decides."
        ),
        ProseRule(
            "old words",
            #"""
            \b(?:lest|mends?|mended|mending|lies? (?:on|in|there)|wherein|thereof|hitherto|anew)\b
            """#,
            broken: "The file is read anew."
        ),
        ProseRule(
            "by which, under which",
            #"""
            \b(?:belongs? into|up to which|out of which|by whom|in whose|under which)\b
            """#,
            broken: "The number up to which it is known."
        ),
        ProseRule(
            "as the server has it",
            #"\b(?:as [A-Z]?[a-z]+ has (?:it|them)|as it had|so and so)\b"#,
            broken: "Shown as the server has it, or as Unicode has it."
        ),
        ProseRule(
            "numerals as nouns",
            #"\b(?:are one|is one of its own|each a|make one of)\b"#,
            broken: "The two are one."
        ),
    ]
}

extension SourceFile {
    /// The comments and test names of a Swift file, or the text of a Markdown file outside of code;
    /// one line for each line of the file, empty where there is no prose.
    var prose: [String] {
        if path.hasSuffix(".md") { return proseOfPage }
        guard path.hasSuffix(".swift") else { return [] }
        return zip(
            comments.components(separatedBy: "\n"),
            text.components(separatedBy: "\n")
        )
        .map { comment, line in
            let words = comment.drop { " /".contains($0) }
            guard words.isEmpty else { return String(words) }
            // A test's name is in the code, where it is blanked.
            let parts = line.split(separator: "`", omittingEmptySubsequences: false)
            return parts.count == 3 && parts[0].hasSuffix("func ") ? String(parts[1]) : ""
        }
    }

    private var proseOfPage: [String] {
        var isFenced = false
        return text.components(separatedBy: "\n").map { line in
            let isFence = line.drop { $0 == " " }.hasPrefix("```")
            if isFence { isFenced.toggle() }
            return isFence || isFenced || line.hasPrefix("    ") ? "" : line
        }
    }
}
