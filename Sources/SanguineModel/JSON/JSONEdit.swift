/// A member of an object, and where it stands in the text.
package struct JSONMember: Hashable, Sendable {
    /// The name, without its escapes.
    package let name: String
    /// Name and value.
    package let place: Range<Int>
    /// The value.
    package let value: Range<Int>
}

/// Changes some members of an object in its text, and keeps every other byte.
///
/// ```swift
/// var edit = JSONEdit(bytes)
/// edit.set("model", to: Array("\"small\"".utf8))
/// send(edit.bytes)
/// ```
///
/// A value that is parsed and written again has lost the order of its members, which changes what a
/// language model answers to a schema, and all that ``JSONValue`` does not hold.
package struct JSONEdit {
    private let original: [UInt8]
    private let members: [JSONMember]
    /// The new texts of members, by their indexes; empty for those that are removed.
    private var changes: [Int: [UInt8]] = [:]
    private var added: [[UInt8]] = []

    /// Creates an edit of an object, or of an empty one if the text is none.
    package init(_ object: [UInt8]) {
        if let members = JSONParser.members(in: object) {
            (original, self.members) = (object, members)
        } else {
            (original, members) = (Array("{}".utf8), [])
        }
    }

    /// The value of the first member of that name that is left, as it was at first.
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
    ///   - others: Other names that mean the same. The first member of any of the names is
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

    /// Removes all members of these names.
    package mutating func remove(_ names: String...) {
        for index in indexes(of: names) { changes[index] = [] }
    }

    /// The text with the changes.
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
                result += original[start..<member.place.lowerBound]
                result += change ?? Array(original[member.place])
                result += original[member.place.upperBound..<end]
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

    /// Where the comma or the brace behind a member stands.
    private func end(of member: JSONMember) -> Int {
        original[member.place.upperBound...].firstIndex {
            $0 == UInt8(ascii: ",") || $0 == UInt8(ascii: "}")
        } ?? original.count
    }
}
