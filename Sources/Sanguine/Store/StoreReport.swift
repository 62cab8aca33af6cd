public import Foundation

/// How the client's store is doing.
///
/// An app that keeps what users wrote shows it when ``place`` is not what was asked for, or when
/// ``failure`` is there.
public struct StoreReport: Sendable, Hashable {
    /// Where the store keeps what it is given.
    public enum Place: Sendable, Hashable {
        /// In a file, which survives the process.
        case disk
        /// In memory, because the configuration says so.
        case memory
        /// In memory, because the disk could not be used: everything is lost with the process.
        case memoryInsteadOfDisk
    }

    /// Where the store keeps what it is given.
    public var place: Place
    /// The last failure of the disk, or `nil` if there was none.
    public var failure: String?
    /// The files that could not be read and were put aside for a fresh one.
    public var movedAside: [URL] = []
    /// How many damaged or undecodable rows were dropped since the client was created.
    public var droppedRows = 0
    /// How many of the user's records could not be read as the app's type when they were read last.
    ///
    /// They are missing in lists and kept on disk and on the server, for a version of the app that
    /// can read them. The log names the collection, and the member that is not as expected. Counts
    /// at most 10,000.
    public var unreadableRecords = 0

    /// Creates a report, for previews and tests; a client makes its own.
    ///
    /// Default: of a store that never failed.
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
