/// The members of a stored value that are left out when it is read, because their names are over
/// their limit.
///
/// Versions before this one stored them. To hash such a name may take minutes, so it is never in a
/// ``JSONValue``; what is stored over the value has them again, byte by byte.
package struct HiddenMembers: Hashable, Sendable {
    /// A member that is left out.
    struct Member: Hashable, Sendable {
        let name: String
        /// The value as it is stored.
        let json: [UInt8]

        static func == (lhs: Member, rhs: Member) -> Bool {
            lhs.name.hasBytes(of: rhs.name) && lhs.json == rhs.json
        }

        func hash(into hasher: inout Hasher) { hasher.combine(json) }
    }

    /// Those of the value itself.
    var members: [Member] = []
    /// Those inside of its members.
    var named: [String: HiddenMembers] = [:]
    /// Those inside of its elements.
    var elements: [Int: HiddenMembers] = [:]

    var isEmpty: Bool { members.isEmpty && named.isEmpty && elements.isEmpty }

    /// The name of one of them.
    var name: String? {
        members.first?.name ?? named.values.lazy.compactMap(\.name).first
            ?? elements.values.lazy.compactMap(\.name).first
    }

    /// What stays hidden in a value that is stored over the one that has these.
    ///
    /// Members stay in an object that is still one, and in an element that is the same. They go
    /// with a value that is removed, or replaced by one of another type of JSON.
    ///
    /// - Throws: ``Refusal`` if an element with hidden members differs, because no one can say
    ///   which of the new ones it is.
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

    /// These and those of another value, of which one's own count.
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
