public import SanguineModel

extension RecordCollection {
    /// The members of a collection in the file: `collections.<name>.<member>`.
    public enum Field: String, CaseIterable, Sendable {
        /// The accounts that may read: `owner` or `everyone`. Default: `owner`.
        case access
        /// The members that records can be queried by. Default: none.
        case indexes
        /// The record that remains when a guest is merged into an account that has one with the
        /// same id: `newer`, `account` or `guest`. Default: `newer`.
        case onMerge

        /// A description of the permitted values.
        public var allowed: String {
            switch self {
            case .access: "owner, everyone"
            case .indexes: "at most \(WireLimits.indexesPerCollection) names, each once"
            case .onMerge: "newer, account, guest"
            }
        }
    }

    /// A description of the permitted names.
    static var allowedNames: String { "a lower-case letter, then at most 63 of a–z A–Z 0–9 _ -" }

    /// Reads a collection from the file.
    ///
    /// - Throws: `SettingsError` for members with invalid values.
    public init(
        name: String,
        members: [Field: String],
        source: String
    ) throws(SettingsError) {
        let text = members[.access] ?? Access.owner.rawValue
        guard let access = Access(rawValue: text) else {
            throw SettingsError([Self.refusal(of: name, .access, value: text, source: source)])
        }
        let ruleText = members[.onMerge] ?? MergeRule.newer.rawValue
        guard let rule = MergeRule(rawValue: ruleText) else {
            throw SettingsError([
                Self.refusal(of: name, .onMerge, value: ruleText, source: source)
            ])
        }
        let indexes = members[.indexes]?.split(separator: ",").map { name in
            String(name.filter { !$0.isWhitespace })
        }
        self.init(
            name,
            access: access,
            indexes: indexes?.filter { !$0.isEmpty } ?? [],
            onMerge: rule
        )
    }

    /// The members in the form of the file, in the order of ``Field``.
    public var texts: [(field: Field, text: String)] {
        [
            (.access, access.rawValue), (.indexes, indexes.joined(separator: ", ")),
            (.onMerge, onMerge.rawValue),
        ]
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
