import Foundation

/// Splits texts into the words by which they are found.
///
/// Case, accents and width make no difference: `Café` is found by `caf`. Scripts without spaces
/// between words (Chinese, Japanese, Thai) are split into pairs of neighboring characters, so that
/// any part of a text is found. Two texts that are canonically equal have the same words.
struct SearchWords {
    private(set) var words: [String] = []
    private var known: Set<String> = []
    private var word = String.UnicodeScalarView()
    /// The last character of a script without spaces.
    private var last: Unicode.Scalar?
    private let limit: Int

    /// Returns the different words of a text, in the order in which they begin.
    ///
    /// - Parameters:
    ///   - text: The text.
    ///   - limit: The maximum number of words.
    /// - Returns: The words.
    static func words(of text: String, limit: Int = MessageLimits.indexedWords) -> [String] {
        var parts = SearchWords(limit: limit)
        let isPlain = text.utf8.allSatisfy { $0 < 0x80 }
        let folded = isPlain ? text : text.decomposedStringWithCompatibilityMapping
        for scalar in folded.unicodeScalars {
            parts.read(scalar)
            guard parts.words.count < limit else { return parts.words }
        }
        parts.endWord()
        return parts.words
    }

    /// Returns whether each of the words begins a word of the text.
    static func isFound(_ words: [String], in text: String) -> Bool {
        let all = Self.words(of: text)
        return words.allSatisfy { word in all.contains { $0.utf8.starts(with: word.utf8) } }
    }

    private init(limit: Int) { self.limit = limit }

    private mutating func read(_ scalar: Unicode.Scalar) {
        switch scalar.value {
        case 0x30...0x39, 0x61...0x7A: append(scalar)
        case 0x41...0x5A: append(Unicode.Scalar(UInt8(scalar.value + 0x20)))
        case 0..<0x80: endWord()
        case 0x300...0x36F, 0x200C, 0x200D, 0x3099...0x309A: break  // Accents and joiners.
        default: readOther(scalar)
        }
    }

    private mutating func readOther(_ scalar: Unicode.Scalar) {
        let properties = scalar.properties
        switch properties.generalCategory {
        case .nonspacingMark, .spacingMark, .enclosingMark: append(scalar)
        case .decimalNumber, .letterNumber, .otherNumber: append(scalar)
        case _ where properties.isAlphabetic:
            if Self.isWithoutSpaces(scalar) {
                appendToPair(scalar)
            } else {
                for lower in properties.lowercaseMapping.unicodeScalars { append(lower) }
            }
        default: endWord()
        }
    }

    private mutating func append(_ scalar: Unicode.Scalar) {
        if last != nil { endWord() }
        if word.count < MessageLimits.wordCharacters { word.append(scalar) }
    }

    private mutating func appendToPair(_ scalar: Unicode.Scalar) {
        if !word.isEmpty { endWord() }
        if let last { add(String(Character(last)) + String(Character(scalar))) }
        last = scalar
    }

    private mutating func endWord() {
        if let last { add(String(Character(last))) }
        if !word.isEmpty { add(String(word)) }
        (word, last) = (String.UnicodeScalarView(), nil)
    }

    private mutating func add(_ word: String) {
        if words.count < limit, known.insert(word).inserted { words.append(word) }
    }

    private static func isWithoutSpaces(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.value {
        case 0x0E00...0x0EFF,  // Thai, Lao
            0x1000...0x109F, 0x1780...0x17FF,  // Myanmar, Khmer
            0x3040...0x30FF, 0x31F0...0x31FF:  // Hiragana, Katakana
            true
        default: scalar.properties.isIdeographic
        }
    }
}
