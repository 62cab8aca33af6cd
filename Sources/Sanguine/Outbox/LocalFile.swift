import Foundation
import SanguineModel

/// The ids of files that are on this device and are not uploaded yet, such as
/// `local-file-0199f3c8-2f6b-7c1e-9a54-3d2b8e07f6aa`.
///
/// An operation names a file by such an id anywhere in its arguments, alone or within a text. All
/// ids have the same length and only characters that JSON does not escape, so they are found and
/// replaced in the encoded arguments.
enum LocalFile {
    private static let prefix = "local-file-"
    private static let marker = Data(prefix.utf8)
    private static let identifierBytes = 36

    /// Returns the id of a new file.
    static func id(_ identifier: Identifier) -> String { prefix + identifier.description }

    /// Whether the text is the id of a local file.
    static func isValid(_ id: String) -> Bool {
        id.hasPrefix(prefix) && Identifier(id.dropFirst(prefix.count)) != nil
    }

    /// A file that an operation names.
    struct Mention: Hashable {
        let id: String
        /// Whether the id is a whole string, and not a part of a text.
        let isWhole: Bool
    }

    /// Returns the files that encoded arguments name, in the order of their first mention.
    static func mentions(in arguments: Data) -> [Mention] {
        var mentions: [Mention] = []
        var rest = arguments[...]
        while let found = rest.range(of: marker) {
            rest = rest[found.upperBound...]
            let end = found.upperBound + identifierBytes
            guard end <= arguments.endIndex else { break }
            let id = String(decoding: arguments[found.lowerBound..<end], as: UTF8.self)
            guard isValid(id) else { continue }
            let quote = UInt8(ascii: "\"")
            let isWhole =
                found.lowerBound > arguments.startIndex && end < arguments.endIndex
                && arguments[found.lowerBound - 1] == quote && arguments[end] == quote
            let mention = Mention(id: id, isWhole: isWhole)
            if !mentions.contains(mention) { mentions.append(mention) }
        }
        return mentions
    }
}

extension OutboxFile.Row {
    /// Whether the operation names a local file; an upload does not name its own.
    func names(_ local: String) -> Bool {
        kind != .upload && arguments.range(of: Data(local.utf8)) != nil
    }

    /// Returns the operation with the server's id of a file instead of the local one.
    func naming(_ real: String, insteadOf local: String) -> OutboxFile.Row {
        var row = self
        row.lane = lane.replacing(local, with: real)
        let (old, new) = (Data(local.utf8), Data(real.utf8))
        while let found = row.arguments.range(of: old) {
            row.arguments.replaceSubrange(found, with: new)
        }
        return row
    }
}

extension Problem {
    /// A local file that an operation names is neither on this device nor on the server.
    static let localFileIsGone = Problem(
        .notFound,
        "Choose the file again: it is no longer on this device. Discard operations that name it."
    )

    /// An upload that other operations need.
    static let uploadIsNamed = Problem(
        .operationInProgress,
        "Discard the operations that name the file first: they cannot be sent without it."
    )
}
