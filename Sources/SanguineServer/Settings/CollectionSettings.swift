public import SanguineModel

extension RecordCollection {
    /// The members of a collection in the file: `collections.<name>.<member>`.
    public enum Field: String, CaseIterable, Sendable {
        /// Who may read: `owner` or `everyone`. Default: `owner`.
        case access
        /// The members by which records are found. Default: none.
        case indexes

        /// What the member may be, in words.
        public var allowed: String {
            switch self {
            case .access: "owner, everyone"
            case .indexes: "at most \(WireLimits.indexesPerCollection) names, each once"
            }
        }
    }

    /// What a collection may be called, in words.
    static var allowedNames: String { "a small letter, then at most 63 of a–z A–Z 0–9 _ -" }

    /// Reads a collection as the file gives it.
    ///
    /// - Throws: `SettingsError` for members that are not allowed.
    public init(
        name: String,
        members: [Field: String],
        source: String
    ) throws(SettingsError) {
        let text = members[.access] ?? Access.owner.rawValue
        guard let access = Access(rawValue: text) else {
            throw SettingsError([Self.refusal(of: name, .access, value: text, source: source)])
        }
        let indexes = members[.indexes]?.split(separator: ",").map { name in
            String(name.filter { !$0.isWhitespace })
        }
        self.init(name, access: access, indexes: indexes?.filter { !$0.isEmpty } ?? [])
    }

    /// The members as the file would give them, in the order of ``Field``.
    public var texts: [(field: Field, text: String)] {
        [(.access, access.rawValue), (.indexes, indexes.joined(separator: ", "))]
    }

    static func problems(in collections: [RecordCollection]) -> [SettingsError.Problem] {
        var problems: [SettingsError.Problem] = []
        var seen: Set<String> = []
        for collection in collections {
            if !isValid(name: collection.name) {
                problems.append(refusal(of: collection.name, allowed: allowedNames))
            } else if !seen.insert(collection.name).inserted {
                problems.append(refusal(of: collection.name, allowed: "each name once"))
            } else if collection.fault != nil {
                let text = collection.indexes.joined(separator: ", ")
                problems.append(
                    refusal(of: collection.name, .indexes, value: text, source: "settings")
                )
            }
        }
        if collections.count > ServerSettings.listLimit {
            let allowed = "at most \(ServerSettings.listLimit)"
            problems.append(refusal(of: String(collections.count), allowed: allowed))
        }
        return problems
    }

    private static func refusal(of name: String, allowed: String) -> SettingsError.Problem {
        .invalid(setting: "collections", value: name, allowed: allowed, source: "settings")
    }

    private static func refusal(
        of name: String,
        _ field: Field,
        value: String,
        source: String
    ) -> SettingsError.Problem {
        .invalid(
            setting: "collections.\(name).\(field.rawValue)",
            value: value,
            allowed: field.allowed,
            source: source
        )
    }
}
