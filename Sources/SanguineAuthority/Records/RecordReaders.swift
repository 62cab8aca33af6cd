import SanguineModel

// The records of a collection with the access `readers` have entries in lists of each account that
// may read them. So a list, a look-up of a file or a count never examines a record of others.
extension RecordCollection {
    /// The accounts that a record names as its readers; none for other collections.
    func readingAccounts(of fields: RecordFields) -> Set<Identifier> {
        guard access == .readers, let readers else { return [] }
        switch fields[readers] {
        case .string(let text)?: return Set([Identifier(text)].compactMap(\.self))
        case .array(let values)?:
            return Set(values.compactMap { $0.string.flatMap { Identifier($0) } })
        default: return []
        }
    }

    /// The declarations on which the lists that contain a record depend.
    ///
    /// Another value makes the entries in all indexes outdated: an account would still find the
    /// records that a former member names it in.
    var audience: String { readers.map { "\(access.rawValue) \($0)" } ?? access.rawValue }

    /// Whether the account may read the record.
    func isReadable(_ row: RecordRow, by account: Identifier) -> Bool {
        switch access {
        case .owner, .everyone: access == .everyone || row.owner == account
        case .readers:
            row.owner == account || readingAccounts(of: row.liveFields ?? [:]).contains(account)
        }
    }

    /// The scope of the lists that an account reads.
    func listScope(of account: Identifier) -> Identifier? { access == .everyone ? nil : account }

    /// The name of the list of a member's values that an account reads.
    func listName(of member: String) -> String {
        let list = StoredIndex.member(member)
        return access == .readers ? StoredIndex.readable(list).name : list.name
    }

    /// Refuses a new or changed record whose readers or id are invalid.
    ///
    /// An id that can be guessed would tell others whether a record exists.
    ///
    /// - Throws: `invalid_content`.
    func checkReaders(
        of id: RecordID,
        _ fields: RecordFields,
        isNew: Bool
    ) throws(Refusal) {
        guard access == .readers, let readers else { return }
        guard !isNew || Identifier(id.text) != nil else {
            throw Refusal(.invalidContent, "Use a UUID as the id of a record of '\(name)'.")
        }
        let limit = WireLimits.readersPerRecord
        let named: Int
        switch fields[readers] {
        case nil, .null?: named = 0
        case .string?: named = 1
        case .array(let values)?: named = values.count
        default: named = -1
        }
        guard (0...limit).contains(named), readingAccounts(of: fields).count == named else {
            throw Refusal(
                .invalidContent,
                """
                Set '\(readers)' to the id of an account, or to a list of at most \(limit) of \
                them, each once.
                """
            )
        }
    }
}
