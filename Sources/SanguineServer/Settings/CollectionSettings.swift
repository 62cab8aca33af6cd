public import SanguineModel

extension RecordCollection {
    /// The members of a collection in the file: `collections.<name>.<member>`.
    public enum Field: String, CaseIterable, Sendable {
        /// The accounts that may read: `owner`, `everyone`, or `readers` that each record names.
        /// Default: `owner`.
        case access
        /// The members that records can be queried by. Default: none.
        case indexes
        /// The members that name uploaded files, which the readers of the record may read. Default:
        /// none.
        case blobs
        /// The members that name uploaded files, which everyone may read without a token. Default:
        /// none.
        case publicBlobs
        /// The member that the server sets to the id of the owner's account. Default: none.
        case owner
        /// The member that names the accounts that may read a record, for the access `readers`.
        /// Default: none.
        case readers
        /// The groups of members whose values occur together once, each as `a+b`. Default: none.
        case unique
        /// The members by whose beginning records can be found. Default: none.
        case search
        /// The members that count the records, each as `<member> in <collection>.<member>`.
        /// Default: none.
        case counts
        /// The lists of the newest records of the authors that an account follows, each as `<name>
        /// by <member> in <collection>.<member>`, with `including own` if the reader's own records
        /// are in it, too. Default: none.
        case timelines
        /// The record that remains when a guest is merged into an account that has one with the
        /// same id: `newer`, `account` or `guest`. Default: `newer`.
        case onMerge

        /// A description of the permitted values.
        public var allowed: String {
            switch self {
            case .access: "owner, everyone, readers"
            case .indexes: "at most \(WireLimits.indexesPerCollection) names, each once"
            case .blobs: "at most \(WireLimits.indexesPerCollection) names, each once"
            case .publicBlobs:
                "names that 'blobs' does not list, in a collection with the access 'everyone'"
            case .owner: "the name of a member"
            case .readers:
                """
                the name of a member, with the access 'readers', an 'owner', an index on \
                createdAt, and no 'search' or 'counts'
                """
            case .unique: "at most 8 groups of 1 to 4 members, such as post+author"
            case .search: "names, each once: at most 8 with the groups of 'unique'"
            case .counts:
                "at most 8 counts such as 'post in posts.likes', in a collection for everyone"
            case .timelines:
                """
                at most 8 such as 'home by author in follows.followed', of a collection for \
                everyone with an index on createdAt; with 'including own', by its owner
                """
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
        let owner = try Self.name(name, members, .owner, source)
        let readers = try Self.name(name, members, .readers, source)
        let counters = try Self.elements(name, members, .counts, source) { RecordCounter(text: $0) }
        let timelines = try Self.elements(name, members, .timelines, source) {
            RecordTimeline(text: $0)
        }
        self.init(
            name,
            access: access,
            indexes: Self.names(members[.indexes]),
            blobs: Self.names(members[.blobs]).map { BlobField($0) }
                + Self.names(members[.publicBlobs]).map { .publicly($0) },
            owner: owner,
            readers: readers,
            unique: Self.names(members[.unique]).map { group in
                group.split(separator: "+", omittingEmptySubsequences: false).map(String.init)
            },
            search: Self.names(members[.search]),
            counts: counters,
            timelines: timelines,
            onMerge: rule
        )
    }

    /// Reads a member that has at most one name.
    private static func name(
        _ collection: String,
        _ members: [Field: String],
        _ field: Field,
        _ source: String
    ) throws(SettingsError) -> String? {
        let names = names(members[field])
        guard names.count <= 1 else {
            let text = members[field] ?? ""
            throw SettingsError([refusal(of: collection, field, value: text, source: source)])
        }
        return names.first
    }

    /// Reads a list of declarations, each in its form of the file.
    private static func elements<Element>(
        _ collection: String,
        _ members: [Field: String],
        _ field: Field,
        _ source: String,
        _ read: (Substring) -> Element?
    ) throws(SettingsError) -> [Element] {
        let text = members[field] ?? ""
        var elements: [Element] = []
        for part in text.split(separator: ",") {
            guard let element = read(part) else {
                throw SettingsError([refusal(of: collection, field, value: text, source: source)])
            }
            elements.append(element)
        }
        return elements
    }

    private static func names(_ text: String?) -> [String] {
        let names = text?.split(separator: ",").map { String($0.filter { !$0.isWhitespace }) } ?? []
        return names.filter { !$0.isEmpty }
    }

    private func text(of field: Field) -> String {
        switch field {
        case .access: access.rawValue
        case .indexes: indexes.joined(separator: ", ")
        case .blobs: blobs.filter { !$0.isPublic }.map(\.name).joined(separator: ", ")
        case .publicBlobs: blobs.filter(\.isPublic).map(\.name).joined(separator: ", ")
        case .owner: owner ?? ""
        case .readers: readers ?? ""
        case .unique: unique.map { $0.joined(separator: "+") }.joined(separator: ", ")
        case .search: search.joined(separator: ", ")
        case .counts: counts.map(\.text).joined(separator: ", ")
        case .timelines: timelines.map(\.text).joined(separator: ", ")
        case .onMerge: onMerge.rawValue
        }
    }

    /// The members in the form of the file, in the order of ``Field``: access, indexes and the rule
    /// for merges always, others only if they are declared.
    public var texts: [(field: Field, text: String)] {
        Field.allCases.map { ($0, text(of: $0)) }.filter { $0.0 == .indexes || !$0.1.isEmpty }
    }

    /// The member with the ``fault``: the last one without which there is none; `nil` if more than
    /// one member has a fault.
    private var faulty: Field? {
        Field.allCases.last { without($0).fault == nil }
    }

    private func without(_ field: Field) -> Self {
        Self(
            name,
            access: field == .access ? .owner : access,
            indexes: field == .indexes ? [] : indexes,
            blobs: blobs.filter { field != ($0.isPublic ? .publicBlobs : .blobs) },
            owner: field == .owner ? nil : owner,
            readers: field == .readers ? nil : readers,
            unique: field == .unique ? [] : unique,
            search: field == .search ? [] : search,
            counts: field == .counts ? [] : counts,
            timelines: field == .timelines ? [] : timelines,
            onMerge: onMerge
        )
    }

    static func problems(in collections: [RecordCollection]) -> [SettingsError.Problem] {
        var problems: [SettingsError.Problem] = []
        var seen: Set<String> = []
        for collection in collections {
            if !isValid(name: collection.name) {
                problems.append(refusal(of: collection.name, allowed: allowedNames))
            } else if !seen.insert(collection.name).inserted {
                problems.append(refusal(of: collection.name, allowed: "each name once"))
            } else if let fault = collection.fault {
                problems.append(
                    collection.faulty.map { field in
                        let text = collection.text(of: field)
                        return refusal(of: collection.name, field, value: text, source: "settings")
                    } ?? .unusable(reason: fault)
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

extension RecordCounter {
    /// Reads a counter in the form of the file, such as `post in posts.likes`.
    fileprivate init?(text: some StringProtocol) {
        let words = text.split(whereSeparator: \.isWhitespace)
        guard words.count == 3, words[1] == "in" else { return nil }
        let parts = words[2].split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 2 else { return nil }
        self.init(by: String(words[0]), in: String(parts[0]), as: String(parts[1]))
    }

    /// The counter in the form of the file.
    fileprivate var text: String { "\(by) in \(collection).\(member)" }
}

extension RecordTimeline {
    /// Reads a timeline in the form of the file, such as `home by author in follows.followed`.
    fileprivate init?(text: some StringProtocol) {
        var words = text.split(whereSeparator: \.isWhitespace)
        let includesOwn = words.count == 7 && words[5] == "including" && words[6] == "own"
        if includesOwn { words.removeLast(2) }
        guard words.count == 5, words[1] == "by", words[3] == "in" else { return nil }
        let parts = words[4].split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 2 else { return nil }
        self.init(
            String(words[0]),
            by: String(words[2]),
            in: String(parts[0]),
            naming: String(parts[1]),
            includesOwn: includesOwn
        )
    }

    /// The timeline in the form of the file.
    fileprivate var text: String {
        "\(name) by \(by) in \(follows).\(naming)\(includesOwn ? " including own" : "")"
    }
}
