import Foundation

/// Where the command's words go: data to standard output, complaints to standard error.
enum Output {
    /// Writes a line to standard output.
    static func write(_ line: String) {
        // Written whole, so that a program that waits for the line gets it now.
        try? FileHandle.standardOutput.write(contentsOf: Data((line + "\n").utf8))
    }

    /// Writes a line to standard error.
    static func complain(_ line: String) {
        try? FileHandle.standardError.write(contentsOf: Data((line + "\n").utf8))
    }

    /// Writes a value as one line of JSON to standard output.
    static func write(json value: some Encodable) throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        write(String(decoding: try encoder.encode(value), as: UTF8.self))
    }
}

/// A failure whose sentence is all that there is to say.
struct Failure: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}

extension Duration {
    /// The duration as a person says it: `4 s`, `3 min`, `2 h`, `5 days`.
    var spoken: String {
        let seconds = components.seconds
        return switch seconds {
        case ..<1: "a moment"
        case ..<90: "\(seconds) s"
        case ..<5_400: "\((seconds + 30) / 60) min"
        case ..<129_600: "\((seconds + 1_800) / 3_600) h"
        default: "\((seconds + 43_200) / 86_400) days"
        }
    }
}
