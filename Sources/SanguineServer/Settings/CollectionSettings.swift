public import SanguineModel

extension RecordCollection {
    /// The members of a collection in the file: `collections.<name>.<member>`.
    public enum Field: String, CaseIterable, Sendable {
        /// The accounts that may read: `owner` or `everyone`. Default: `owner`.
        case access
        /// The members that records can be queried by. Default: none.
        case indexes
        /// The members that name uploaded files, which the readers of the record may read. Default:
        /// none.
        case blobs
        /// The members that name uploaded files, which everyone may read without a token. Default:
        /// none.
        case publicBlobs
        /// The record that remains when a guest is merged into an account that has one with the
        /// same id: `newer`, `account` or `guest`. Default: `newer`.
        case onMerge

        /// A description of the permitted values.
        public var allowed: String {
            switch self {
            case .access: "owner, everyone"
            case .indexes: "at most \(WireLimits.indexesPerCollection) names, each once"
            case .blobs: "at most \(WireLimits.indexesPerCollection) names, each once"
            case .publicBlobs:
                "names that 'blobs' does not list, in a collection with the access 'everyone'"
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
        self.init(
            name,
            access: access,
            indexes: Self.names(members[.indexes]),
            blobs: Self.names(members[.blobs]).map { BlobField($0) }
                + Self.names(members[.publicBlobs]).map { .publicly($0) },
            onMerge: rule
        )
    }

    private static func names(_ text: String?) -> [String] {
        (text ?? "").split(separator: ",").map { $0.filter { !$0.isWhitespace } }
            .filter { !$0.isEmpty }
    }

    private func text(of field: Field) -> String {
        switch field {
        case .access: access.rawValue
        case .indexes: indexes.joined(separator: ", ")
        case .blobs: blobs.filter { !$0.isPublic }.map(\.name).joined(separator: ", ")
        case .publicBlobs: blobs.filter(\.isPublic).map(\.name).joined(separator: ", ")
        case .onMerge: onMerge.rawValue
        }
    }

    /// The members in the form of the file, in the order of ``Field``.
    public var texts: [(field: Field, text: String)] {
        Field.allCases.map { ($0, text(of: $0)) }
    }

    /// The member with the ``fault``.
    private var faulty: Field {
        // The first member whose removal leaves no fault.
        if Self(name, access: access, blobs: blobs, onMerge: onMerge).fault == nil {
            return .indexes
        }
        return blobs.contains(where: \.isPublic) ? .publicBlobs : .blobs
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
                let field = collection.faulty
                let text = collection.text(of: field)
                problems.append(
                    refusal(of: collection.name, field, value: text, source: "settings")
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
