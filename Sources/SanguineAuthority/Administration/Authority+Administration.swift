package import SanguineModel

// What administrators see.
extension Authority {
    /// An account as administrators see it.
    package struct Overview: Codable, Sendable {
        package var account: Account
        /// `active`, `merged` or `deleted`.
        package var state: String
        /// The account into which this one was merged.
        package var mergedInto: Identifier?
        /// The end of the plan; `nil` for none.
        package var planExpiresAt: Timestamp?
        package var balance: Balance
        package var quotas: [Quota]
        package var sessions: [SessionInfo]
        /// The ways to sign in to the account, without secrets.
        package var logins: [LoginInfo]
        /// The ids of the account's devices, at most 100.
        package var devices: [String]
        /// The newest entries, at most 20.
        package var ledger: [LedgerEntry]
        /// The progress of a deletion; `nil` if there is none.
        package var removal: RemovalStatus?
    }

    /// Returns an account with its balance, quotas, sessions and newest ledger entries.
    ///
    /// - Throws: `not_found`, also for an account that was deleted more than 30 days ago.
    package func overview(of id: Identifier) async throws(Problem) -> Overview {
        let keys =
            [Key.account(id), .balance(id)]
            + settings.quotas.keys.map { .quota(id, name: $0) }
        let loaded = try await read { storage throws(StorageError) in try await storage.load(keys) }
        guard let row = loaded.account(id),
            let balance = loaded.balance(id) ?? row.emptyBalance
        else { throw .unknownAccount }
        let profile = row.profile(at: clock.now())
        let removal = try await removalStatus(id)
        if row.state == .deleted, removal == nil { throw .unknownAccount }
        let devices = AccountRowsQuery(.devices, of: id, limit: 100)
        let found = try await read { storage throws(StorageError) in
            try await storage.rows(devices)
        }
        return Overview(
            account: profile,
            state: row.state.name,
            mergedInto: row.state.target,
            planExpiresAt: row.planExpiresAt,
            balance: encoder.message(balance),
            quotas: quota.all(of: profile, loaded),
            sessions: try await sessions(of: id).items,
            logins: try await logins(of: id).items,
            devices: found.compactMap { if case .device(let row) = $0 { row.id } else { nil } },
            ledger: try await ledger(of: id).items,
            removal: removal
        )
    }

    /// Returns a page of the active accounts, in the order in which they were created.
    ///
    /// - Parameters:
    ///   - kind: The kind of the accounts; `nil` for all.
    ///   - limit: The number of accounts; clamped to 1 to ``WireLimits/largestPage``. Default: 20.
    ///   - cursor: `nextCursor` of the previous page, or `nil` for the first.
    /// - Returns: The accounts, and the cursor of the next page if there is one.
    /// - Throws: `malformed_request` for a cursor that does not belong to this list.
    package func accounts(
        kind: Account.Kind? = nil,
        limit: Int? = nil,
        cursor: String? = nil
    ) async throws(Problem) -> ListPage<Account> {
        let limit = min(max(1, limit ?? WireLimits.defaultPage), WireLimits.largestPage)
        let list = "accounts \(kind?.rawValue ?? "all")"
        var query = AccountsQuery(kind: kind, limit: limit + 1)
        if let cursor {
            let text = try cursors.position(cursor, list: list, account: .administration)
            guard let last = Identifier(text) else { throw .cursorInvalid }
            query.after = last
        }
        let found = try await read { [query] storage throws(StorageError) in
            try await storage.accounts(query)
        }
        let page = found.prefix(limit)
        var next: String?
        if found.count > limit, let last = page.last {
            next = try cursors.text(last.id.description, list: list, account: .administration)
        }
        let now = clock.now()
        return ListPage(items: page.map { $0.profile(at: now) }, nextCursor: next)
    }

    /// An entry of the audit log as administrators see it.
    package struct AuditEntry: Codable, Sendable {
        package var number: Int64
        package var at: Timestamp
        package var actor: String
        package var role: String
        package var action: String
        package var account: Identifier?
        package var reason: String
        package var outcome: String
        package var detail: String?
        /// The SHA-256 of the entry, in hexadecimal digits; the next entry contains it.
        package var hash: String
    }

    /// Returns a page of the audit log, newest first.
    ///
    /// - Throws: `malformed_request` for a cursor that does not belong to this list.
    package func audit(
        limit: Int? = nil,
        cursor: String? = nil
    ) async throws(Problem) -> ListPage<AuditEntry> {
        let limit = min(max(1, limit ?? WireLimits.defaultPage), WireLimits.largestPage)
        let number: Int64? =
            if let cursor {
                try cursors.number(cursor, list: "audit", account: .administration)
            } else { nil }
        let found = try await read { storage throws(StorageError) in
            try await storage.audit(before: number, limit: limit + 1)
        }
        let page = found.prefix(limit)
        var next: String?
        if found.count > limit, let last = page.last {
            next = try cursors.text(last.number, list: "audit", account: .administration)
        }
        return ListPage(items: page.map(\.entry), nextCursor: next)
    }
}

extension AuditRow {
    fileprivate var entry: Authority.AuditEntry {
        Authority.AuditEntry(
            number: number,
            at: at,
            actor: actor,
            role: role,
            action: action,
            account: account,
            reason: reason,
            outcome: outcome,
            detail: detail,
            hash: hash.map { String($0 >> 4, radix: 16) + String($0 & 0xF, radix: 16) }.joined()
        )
    }
}

extension AccountRow {
    /// The balance of a merged guest, whose tokens the account has; `nil` for other accounts.
    fileprivate var emptyBalance: BalanceRow? {
        guard case .merged = state else { return nil }
        return BalanceRow(
            account: id,
            head: seq,
            available: 0,
            held: 0,
            seq: seq,
            changedAt: profile.createdAt
        )
    }
}

extension AccountRow.State {
    fileprivate var name: String {
        switch self {
        case .active: "active"
        case .merged: "merged"
        case .deleted: "deleted"
        }
    }

    fileprivate var target: Identifier? {
        if case .merged(let target) = self { target } else { nil }
    }
}

extension Identifier {
    /// The owner of the cursors of lists for administrators; no account has this id.
    fileprivate static var administration: Identifier {
        guard let id = Identifier(bytes: [UInt8](repeating: 0, count: 16)) else {
            preconditionFailure("An id has 16 bytes.")
        }
        return id
    }
}
