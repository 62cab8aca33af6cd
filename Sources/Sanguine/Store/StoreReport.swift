public import Foundation

/// The state of the client's store.
///
/// An app that keeps its users' work shows a warning if ``place`` is not the configured one, or if
/// ``failure`` is set.
public struct StoreReport: Sendable, Hashable {
    /// The location of the store's data.
    public enum Place: Sendable, Hashable {
        /// In a file, which survives the process.
        case disk
        /// In memory, because the configuration says so.
        case memory
        /// In memory, because the disk could not be used: all data is lost when the process ends.
        case memoryInsteadOfDisk
    }

    /// The location of the store's data.
    public var place: Place
    /// The last failure of the disk, or `nil` if there was none.
    public var failure: String?
    /// The files that could not be read and were moved aside for a fresh one.
    public var movedAside: [URL] = []
    /// The number of damaged or undecodable rows that were dropped since the client was created.
    public var droppedRows = 0
    /// The number of the user's records that could not be decoded as the app's type when they were
    /// last read.
    ///
    /// They are missing in lists but stay on disk and on the server, for a version of the app that
    /// can read them. The log names the collection and the unexpected member. At most 10,000 are
    /// counted.
    public var unreadableRecords = 0

    /// Creates a report for previews and tests; a client creates its own.
    ///
    /// By default, it describes a store that never failed.
    public init(
        place: Place,
        failure: String? = nil,
        movedAside: [URL] = [],
        droppedRows: Int = 0
    ) {
        self.place = place
        self.failure = failure
        self.movedAside = movedAside
        self.droppedRows = droppedRows
    }
}
