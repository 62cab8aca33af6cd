/// The sums of an account's ledger in a span of days.
public struct LedgerSummary: Hashable, Codable, Sendable {
    /// The property of an entry by which a summary groups.
    public enum Grouping: String, Codable, Sendable, CaseIterable {
        /// The day of the entry in the account's calendar.
        case day
        /// The function whose call was charged.
        case function
        /// The language model that the charged call has asked.
        case model
        /// The API key of the program that was charged.
        case key
        /// The tag that the caller gave to the charge.
        case tag
    }

    /// The sums of one group.
    public struct Group: Hashable, Codable, Sendable {
        /// The day as `YYYY-MM-DD`, the name of the function or model, the id of the API key, or
        /// the tag; `nil` for entries without one.
        public var key: String?
        /// The amount that was granted.
        public var granted: Int64
        /// The amount that was charged: spends and captures.
        public var charged: Int64
        /// The amount that was taken without a charge, such as expired grants.
        public var withdrawn: Int64
        /// The number of entries in these sums.
        public var entries: Int64

        /// Creates a group.
        public init(
            key: String?,
            granted: Int64 = 0,
            charged: Int64 = 0,
            withdrawn: Int64 = 0,
            entries: Int64 = 0
        ) {
            self.key = key
            self.granted = granted
            self.charged = charged
            self.withdrawn = withdrawn
            self.entries = entries
        }
    }

    /// The property by which the entries are grouped.
    public var by: Grouping
    /// The first day, in the account's calendar.
    public var from: CalendarDay
    /// The last day, in the account's calendar.
    public var to: CalendarDay
    /// The groups, in the order of their keys; a group without entries is omitted.
    public var items: [Group]
    /// The cursor of the next page; `nil` on the last page.
    public var nextCursor: String?

    /// Creates a summary.
    public init(
        by: Grouping,
        from: CalendarDay,
        to: CalendarDay,
        items: [Group],
        nextCursor: String? = nil
    ) {
        self.by = by
        self.from = from
        self.to = to
        self.items = items
        self.nextCursor = nextCursor
    }
}
