/// The members of a stored value that are omitted when the value is read, because their names
/// exceed the limit.
///
/// Earlier versions stored such members. Hashing one of their names can take minutes, so they never
/// enter a ``JSONValue``; when the value is overwritten, they are stored again byte by byte.
package struct HiddenMembers: Hashable, Sendable {
    /// An omitted member.
    struct Member: Hashable, Sendable {
        let name: String
        /// The value as it is stored.
        let json: [UInt8]

        static func == (lhs: Member, rhs: Member) -> Bool {
            lhs.name.hasBytes(of: rhs.name) && lhs.json == rhs.json
        }

        func hash(into hasher: inout Hasher) { hasher.combine(json) }
    }

    /// The members of the value itself.
    var members: [Member] = []
    /// The members inside its members.
    var named: [String: HiddenMembers] = [:]
    /// The members inside its elements.
    var elements: [Int: HiddenMembers] = [:]

    var isEmpty: Bool { members.isEmpty && named.isEmpty && elements.isEmpty }

    /// The name of one of the members.
    var name: String? {
        members.first?.name ?? named.values.lazy.compactMap(\.name).first
            ?? elements.values.lazy.compactMap(\.name).first
    }

    /// Returns the members that stay hidden when a new value overwrites the one that has them.
    ///
    /// Members stay in an object that is still an object, and in an element that is equal. They are
    /// removed with a value that is removed, or replaced by a value of another JSON type.
    ///
    /// - Throws: ``Refusal`` if an element with hidden members differs, because no new element can
    ///   be matched to it.
    func kept(from old: JSONValue, to new: JSONValue) throws(Refusal) -> HiddenMembers? {
        var kept = HiddenMembers()
        switch (old, new) {
        case (.object(let old), .object(let new)):
            kept.members = members
            for (name, hidden) in named {
                guard let old = old[name], let new = new[name] else { continue }
                kept.named[name] = try hidden.kept(from: old, to: new)
            }
        case (.array(let old), .array(let new)) where !new.isEmpty:
            for (index, hidden) in elements {
                guard index < new.count, old[index] == new[index] else { throw .hiddenElement }
                kept.elements[index] = hidden
            }
        default: break
        }
        return kept.isEmpty ? nil : kept
    }

    /// Returns the union of both values.
    ///
    /// Members of this one take precedence.
    func merging(_ other: HiddenMembers) -> HiddenMembers {
        var merged = self
        merged.members += other.members.filter { member in
            !members.contains { $0.name.hasBytes(of: member.name) }
        }
        merged.named.merge(other.named) { $0.merging($1) }
        merged.elements.merge(other.elements) { $0.merging($1) }
        return merged
    }
}

extension Refusal {
    fileprivate static var hiddenElement: Refusal {
        Refusal(
            .invalidContent,
            """
            Remove the array first, or leave its elements as they are: one has a member with a \
            name of more than \(WireLimits.memberNameBytes) bytes or \(WireLimits.nameMarks) \
            combining marks in a row, which would be lost.
            """
        )
    }
}
