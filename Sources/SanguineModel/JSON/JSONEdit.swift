/// A member of an object, and its position in the text.
package struct JSONMember: Hashable, Sendable {
    /// The name with its escapes resolved.
    package let name: String
    /// The range of the name and the value.
    package let range: Range<Int>
    /// The range of the value.
    package let value: Range<Int>
}

/// Changes members of an object in its text, and keeps every other byte.
///
/// ```swift
/// var edit = JSONEdit(bytes)
/// edit.set("model", to: Array("\"small\"".utf8))
/// send(edit.bytes)
/// ```
///
/// Parsing and writing a value would lose the order of its members, which changes how a language
/// model answers to a schema, and everything that ``JSONValue`` does not represent.
package struct JSONEdit {
    private let original: [UInt8]
    private let members: [JSONMember]
    /// The new JSON text of members by index; empty for removed members.
    private var changes: [Int: [UInt8]] = [:]
    private var added: [[UInt8]] = []

    /// Creates an edit of an object, or of an empty object if the text is not one.
    package init(_ object: [UInt8]) {
        if let members = JSONParser.members(in: object) {
            (original, self.members) = (object, members)
        } else {
            (original, members) = (Array("{}".utf8), [])
        }
    }

    /// Returns the original value of the first unchanged member with the name.
    package func value(_ name: String) -> ArraySlice<UInt8>? {
        for (index, member) in members.enumerated()
        where changes[index] == nil && member.name.hasBytes(of: name) {
            return original[member.value]
        }
        return nil
    }

    /// Sets a member.
    ///
    /// - Parameters:
    ///   - name: The name.
    ///   - value: The value, as JSON.
    ///   - others: Other names with the same meaning. The first member with any of the names is
    ///     replaced, and the rest are removed. Default: none.
    package mutating func set(
        _ name: String,
        to value: [UInt8],
        replacing others: [String] = []
    ) {
        var text = JSONText(.canonical)
        text.append(name)
        text.append(raw: ":")
        let member = text.bytes + value
        var isSet = false
        for index in indexes(of: [name] + others) {
            changes[index] = isSet ? [] : member
            isSet = true
        }
        if !isSet { added.append(member) }
    }

    /// Removes all members with these names.
    package mutating func remove(_ names: String...) {
        for index in indexes(of: names) { changes[index] = [] }
    }

    /// The text with all changes applied.
    package var bytes: [UInt8] {
        guard !changes.isEmpty || !added.isEmpty else { return original }
        var start = original.firstIndex(of: UInt8(ascii: "{")).map { $0 + 1 } ?? 0
        var result = Array(original[..<start])
        var isFirst = true
        func separate() {
            if !isFirst { result.append(UInt8(ascii: ",")) }
            isFirst = false
        }
        for (index, member) in members.enumerated() {
            let end = self.end(of: member)
            let change = changes[index]
            if change != [] {
                separate()
                result += original[start..<member.range.lowerBound]
                result += change ?? Array(original[member.range])
                result += original[member.range.upperBound..<end]
            }
            start = end + (index + 1 < members.count ? 1 : 0)
        }
        for member in added {
            separate()
            result += member
        }
        return result + original[start...]
    }

    private func indexes(of names: [String]) -> [Int] {
        members.indices.filter { index in
            names.contains { $0.hasBytes(of: members[index].name) }
        }
    }

    /// Returns the position of the comma or brace after a member.
    private func end(of member: JSONMember) -> Int {
        original[member.range.upperBound...].firstIndex {
            $0 == UInt8(ascii: ",") || $0 == UInt8(ascii: "}")
        } ?? original.count
    }
}
