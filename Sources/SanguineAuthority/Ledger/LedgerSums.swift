import Foundation
import SanguineModel

/// Adds up the entries of one account by group.
///
/// Holds and releases move tokens within the account, and merges between it and its guests, so they
/// are not counted.
struct LedgerSums: Sendable {
    /// The maximum number of groups: 10,000; entries of further ones have no key.
    static let limit = 10_000

    let by: LedgerSummary.Grouping
    let zone: TimeZone
    private var groups: [String?: LedgerSummary.Group] = [:]

    init(by grouping: LedgerSummary.Grouping, zone: TimeZone) {
        by = grouping
        self.zone = zone
    }

    mutating func add(_ transfer: Transfer) {
        let between: Set<Book> = [.held, .merges]
        guard !between.contains(transfer.debit), !between.contains(transfer.credit),
            transfer.amount > 0
        else { return }
        var key = key(of: transfer)
        if groups[key] == nil, groups.count >= Self.limit { key = nil }
        var group = groups[key] ?? LedgerSummary.Group(key: key)
        switch (transfer.debit, transfer.credit) {
        case (.grants, _): group.granted &+= transfer.amount
        case (_, .grants): group.withdrawn &+= transfer.amount
        default: group.charged &+= transfer.amount
        }
        group.entries += 1
        groups[key] = group
    }

    /// The groups in the order of their keys; that without a key is last.
    var items: [LedgerSummary.Group] {
        groups.values.sorted { first, second in
            guard let first = first.key else { return false }
            guard let second = second.key else { return true }
            return first.utf8.lexicographicallyPrecedes(second.utf8)
        }
    }

    /// Returns a page of the groups, and the key of its last group if there are further groups.
    ///
    /// - Parameters:
    ///   - last: The key of the last group of the page before; `nil` for the first page.
    ///   - limit: The maximum number of groups.
    /// - Returns: The page, and the key; `nil` on the last page.
    func page(after last: String?, limit: Int) -> ([LedgerSummary.Group], next: String?) {
        let rest = items.filter { group in
            guard let last, let key = group.key else { return true }
            return last.utf8.lexicographicallyPrecedes(key.utf8)
        }
        let page = rest.prefix(limit)
        return (Array(page), rest.count > limit ? page.last?.key : nil)
    }

    private func key(of transfer: Transfer) -> String? {
        switch by {
        case .day: CalendarDay(containing: transfer.at, in: zone).description
        case .function: transfer.chargedFunction
        case .model: transfer.labels.model
        case .key: transfer.labels.key
        case .tag: transfer.labels.tag
        }
    }
}

extension Transfer {
    /// The function whose call was charged.
    ///
    /// Earlier versions stored only the reason: that of a function's hold was the function, and
    /// that of a client's hold always `hold`.
    var chargedFunction: String? {
        if let function { return function }
        return kind == .capture && reason != "hold" ? reason : nil
    }
}

/// A summary's query: `?by=&from=&to=&limit=&cursor=`.
struct SummaryQuery: Sendable {
    /// The longest span: 366 days.
    static let longestDays = 366
    /// The number of days before the last one without `from`: 30.
    static let defaultDays = 30
    /// The maximum number of groups on a page, and the default: 1,000.
    static let largestPage = 1_000

    var by: LedgerSummary.Grouping
    var from: CalendarDay?
    var to: CalendarDay?
    /// The maximum number of groups.
    var limit: Int
    /// The cursor of the previous page; `nil` for the first page.
    var cursor: String?

    /// Parses the query.
    ///
    /// - Throws: `malformed_request` for a grouping, a day or a limit that is not valid.
    init(_ query: WireQuery) throws(Problem) {
        guard let by = LedgerSummary.Grouping(rawValue: query["by"] ?? "") else {
            let all = LedgerSummary.Grouping.allCases.map { "'\($0.rawValue)'" }
            throw Problem(
                .malformedRequest,
                "Set 'by' to one of \(all.joined(separator: ", "))."
            )
        }
        self.by = by
        let list = try WireListQuery(query)
        limit = min(list.limit ?? Self.largestPage, Self.largestPage)
        cursor = list.cursor
        from = try Self.day("from", query)
        to = try Self.day("to", query)
    }

    private static func day(_ name: String, _ query: WireQuery) throws(Problem) -> CalendarDay? {
        guard let text = query[name] else { return nil }
        guard let day = CalendarDay(text) else {
            throw Problem(.malformedRequest, "Set '\(name)' to a day such as 2026-01-31.")
        }
        return day
    }
}

extension Authority {
    /// The number of transfers that a summary or an export reads at a time: 500.
    static let ledgerPage = 500

    /// Adds up the entries of an account and of the guests that were merged into it, in constant
    /// memory.
    ///
    /// - Throws: `not_found`; `malformed_request` for a span that ends before it begins, or of more
    ///   than ``SummaryQuery/longestDays``.
    func summary(
        of account: Identifier,
        _ query: SummaryQuery
    ) async throws(Problem) -> LedgerSummary {
        let zone = try await self.account(account).0.zone
        let to = query.to ?? CalendarDay(containing: clock.now(), in: zone)
        let from =
            query.from
            ?? CalendarDay(daysSince1970: to.daysSince1970 - SummaryQuery.defaultDays)
        guard (0..<SummaryQuery.longestDays).contains(to.daysSince1970 - from.daysSince1970) else {
            throw Problem(
                .malformedRequest,
                """
                Set 'from' to a day before 'to', with at most \(SummaryQuery.longestDays) days \
                from the one to the other.
                """
            )
        }
        // The groups of other days would be other ones.
        let list = "summary \(query.by.rawValue) \(from) \(to)"
        let last = try query.cursor.map { cursor throws(Problem) in
            try cursors.position(cursor, list: list, account: account)
        }
        let (begin, end) = (from.start(in: zone), to.next.start(in: zone))
        var sums = LedgerSums(by: query.by, zone: zone)
        for owner in try await ledgerOwners(of: account) {
            try await add(owner, from: begin, to: end, to: &sums)
        }
        let (page, next) = sums.page(after: last, limit: query.limit)
        return LedgerSummary(
            by: query.by,
            from: from,
            to: to,
            items: page,
            nextCursor: try next.map { next throws(Problem) in
                try cursors.text(next, list: list, account: account)
            }
        )
    }

    private func add(
        _ owner: Identifier,
        from begin: Timestamp,
        to end: Timestamp,
        to sums: inout LedgerSums
    ) async throws(Problem) {
        var number: Int64?
        while true {
            let page = try await read { [number] storage throws(StorageError) in
                try await storage.transfers(of: owner, before: number, limit: Self.ledgerPage)
            }
            for transfer in page.map(\.transfer) where transfer.at < end {
                // The times of an account's transfers never decrease.
                if transfer.at < begin { return }
                sums.add(transfer)
            }
            guard page.count == Self.ledgerPage, let last = page.last else { return }
            number = last.number
            guard last.transfer.at >= end else { continue }
            // A span in the past does not read what follows it.
            number = try await read { storage throws(StorageError) in
                try await storage.number(
                    ofFirstTransferFrom: end,
                    of: owner,
                    atMost: last.number
                )
            }
        }
    }
}

extension LedgerSummary {
    /// The page as CSV (RFC 4180), with a header.
    var csv: [UInt8] {
        var text = "\(by.rawValue),granted,charged,withdrawn,entries\r\n"
        for group in items {
            text += """
                \(CSVText.field(group.key ?? "")),\(group.granted),\(group.charged),\
                \(group.withdrawn),\(group.entries)\r\n
                """
        }
        return Array(text.utf8)
    }
}
