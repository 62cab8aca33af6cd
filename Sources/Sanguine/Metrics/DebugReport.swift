public import SanguineModel

/// The state of a client, for a bug report: figures, and sections of lines.
///
/// ```swift
/// logger.notice("\(client.debugReport())")
/// ```
///
/// The description is text of at most ``MetricsLimits/reportBytes``. The encoded form suits an
/// app's telemetry. It contains names, numbers and codes, and nothing personal; see
/// ``SanguineClient/debugReport()``. <doc:What-Is-Wrong> says which figure explains which symptom.
public struct DebugReport: Hashable, Codable, Sendable {
    /// A titled part of the report.
    public struct Section: Hashable, Codable, Sendable {
        /// The title.
        public var title: String
        /// The lines, each of at most ``MetricsLimits/reportColumns`` characters.
        public var lines: [String]

        /// Creates a section.
        public init(title: String, lines: [String] = []) {
            (self.title, self.lines) = (title, lines)
        }
    }

    /// The version of the library.
    public var version: String
    /// The time of the report, by the device's clock.
    public var createdAt: Timestamp
    /// The figures; one that is not known yet is missing.
    public var figures: [DebugFigure: Int64]
    /// The sections, of which the first names the version and the second lists the figures.
    public var sections: [Section]
    /// Whether sections are missing because the report reached its largest size.
    public var isCut: Bool

    /// Creates a report, for tests and previews; a client creates its own.
    public init(
        version: String,
        createdAt: Timestamp,
        figures: [DebugFigure: Int64] = [:],
        sections: [Section] = [],
        isCut: Bool = false
    ) {
        (self.version, self.createdAt, self.figures) = (version, createdAt, figures)
        (self.sections, self.isCut) = (sections, isCut)
    }

    /// Returns a figure, or `nil` if it is not known yet.
    public subscript(figure: DebugFigure) -> Int64? { figures[figure] }
}

extension DebugReport: CustomStringConvertible {
    /// The sections as text, of which the last line ends with a line feed.
    public var description: String {
        let text = sections.map { section in
            ([section.title] + section.lines.map { "  " + $0 })
                .map { $0 + "\n" }.joined()
        }
        .joined(separator: "\n")
        return isCut ? text + ReportText.end : text
    }
}

/// A figure of the debug report; each is a number.
///
/// <doc:What-Is-Wrong> explains each of them. A figure that answers yes or no is 1 or 0.
public enum DebugFigure: String, Hashable, Codable, CaseIterable, Sendable, CodingKeyRepresentable {
    /// The number of cached entries in memory.
    case memoryEntries = "memory.entries"
    /// The size of the cached entries in memory, in bytes.
    case memoryBytes = "memory.bytes"
    /// The maximum size of the cached entries: ``SanguineClient/Configuration/memoryBytes``.
    case memoryLimit = "memory.limit"
    /// The number of entries that are observed, which are never evicted.
    case memoryObserved = "memory.observed"

    /// The number of decoded images in memory.
    case imagesInMemory = "images.inMemory"
    /// The size of the decoded images in memory, in bytes.
    case imagesMemoryBytes = "images.memoryBytes"
    /// The maximum size of the decoded images: ``ImageSettings/memoryBytes``.
    case imagesMemoryLimit = "images.memoryLimit"
    /// The number of images that a view shows, which are evicted last.
    case imagesVisible = "images.visible"
    /// The size of the image files on disk, in bytes.
    case imagesDiskBytes = "images.diskBytes"
    /// The number of requests for an image that had to wait for a host.
    case imagesMissed = "images.missed"
    /// The number of requests for an image that failed.
    case imagesFailed = "images.failed"

    /// The size of the client's files, in bytes.
    case diskBytes = "disk.bytes"
    /// Whether the disk has failed.
    case diskFailed = "disk.failed"
    /// The number of damaged files that were moved aside.
    case diskMovedAside = "disk.movedAside"
    /// The number of damaged rows that were dropped.
    case diskDroppedRows = "disk.droppedRows"
    /// The number of records that this version of the app cannot decode.
    case diskUnreadableRecords = "disk.unreadableRecords"

    /// Whether the device reports a network.
    case networkOnline = "network.online"
    /// Whether the app is in the foreground.
    case appForeground = "app.foreground"
    /// The seconds until the access token expires; negative afterwards.
    case sessionExpiresIn = "session.expiresInSeconds"
    /// Whether the server has rejected the access token.
    case sessionRejected = "session.rejected"

    /// The number of requests in flight.
    case requestsInFlight = "requests.inFlight"
    /// The number of requests that wait for a slot.
    case requestsWaiting = "requests.waiting"
    /// The number of waiting requests whose results a visible view needs.
    case requestsWaitingVisible = "requests.waitingVisible"

    /// The number of reads of all queries.
    case readsCount = "reads.count"
    /// The number of reads that got a value at once.
    case readsHit = "reads.hit"
    /// The number of reads that found a stale value and waited for a newer one.
    case readsStale = "reads.stale"
    /// The number of reads that found no value.
    case readsMissed = "reads.missed"

    /// The number of fetches that began.
    case fetchesCount = "fetches.count"
    /// The number of fetches in progress.
    case fetchesInFlight = "fetches.inFlight"
    /// The number of attempts after the first one of a fetch.
    case fetchesRetried = "fetches.retried"
    /// The number of fetches that failed.
    case fetchesFailed = "fetches.failed"
    /// The number of fetches that were cancelled with their last caller.
    case fetchesCancelled = "fetches.cancelled"
    /// The number of fetches that took over a second.
    case fetchesSlow = "fetches.slow"
    /// The 99th percentile of the slowest query, in milliseconds.
    case fetchesSlowest = "fetches.slowestP99Milliseconds"

    /// The number of entries in memory that can be used without a fetch.
    case entriesFresh = "entries.fresh"
    /// The number of entries in memory that must be fetched before they count as fresh.
    case entriesStale = "entries.stale"
    /// The number of entries in memory whose last fetch failed.
    case entriesFailed = "entries.failed"
    /// The number of names that two declarations store in different ways.
    case declarationsInConflict = "declarations.inConflict"

    /// The number of operations in the outbox.
    case outboxOperations = "outbox.operations"
    /// The number of operations that the outbox may hold.
    case outboxLimit = "outbox.limit"
    /// The number of operations that the backend has not answered.
    case outboxUnsent = "outbox.unsent"
    /// The number of operations that were applied and whose changes have not arrived.
    case outboxSettling = "outbox.settling"
    /// The number of refused operations in the tray.
    case outboxRefused = "outbox.refused"
    /// The age of the oldest operation, in seconds.
    case outboxOldest = "outbox.oldestSeconds"
    /// The number of operations that the backend has performed.
    case outboxPerformed = "outbox.performed"
    /// The number of operations that were refused, so that their effects were reverted.
    case outboxTakenBack = "outbox.takenBack"

    /// Whether the app uses records, so that the feed is read.
    case feedActive = "feed.active"
    /// Whether there is a live connection.
    case feedLive = "feed.live"
    /// The number of changes that the server has and the device has not.
    case feedBehind = "feed.behind"
    /// The number of pulls that failed in a row.
    case feedFailures = "feed.failures"

    /// The amount that can be spent, with the calls in flight applied.
    case balanceAvailable = "balance.available"
    /// The amount that is held for calls.
    case balanceHeld = "balance.held"
    /// The age of the balance, in seconds.
    case balanceAge = "balance.ageSeconds"
    /// The number of balances of the server that differed from the shown one.
    case balanceMismatches = "balance.mismatches"

    /// The number of calls whose charge is not part of the server's balance yet.
    case callsPending = "calls.pending"
    /// The number of calls that wait for a network.
    case callsWaiting = "calls.waiting"
    /// The number of calls whose answers the app has not read.
    case callsUnread = "calls.unread"

    /// The number of tasks in progress: fetches, sends, pulls and writes to disk.
    case workInProgress = "work.inProgress"
}
