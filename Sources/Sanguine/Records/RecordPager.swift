public import Observation
public import SanguineModel

/// A list of many records for a view, of which only the pages near the shown ones are in memory.
///
/// ```swift
/// let messages = client.pager(of: Message.self)
/// List(messages.items) { message in
///     MessageRow(message).onAppear { messages.itemAppeared(message.id) }
/// }
/// ```
///
/// The records are in descending order of their ids; ids that are made by time have the newest
/// first. The pager begins with the newest page. A page is added when the last record appears, and
/// at most ``RecordLimits/pagerPages`` pages are held: the ones at the other end are dropped, and
/// are read again when the view returns to them. The records follow all changes.
@MainActor
@Observable
public final class RecordPager<Record: SyncedRecord> {
    /// The records of the held pages.
    public var items: [Record] { Array(window.value.prefix(pages * size)) }

    /// Whether there are records after the last item.
    public var hasEarlier: Bool { window.value.count > pages * size }

    /// Whether there may be records before the first item, because newer pages were dropped.
    public var hasLater: Bool { !ends.isEmpty }

    /// Whether all of the user's records are on this device; see ``RecordModel/isComplete``.
    public var isComplete: Bool { window.isComplete }

    /// The held pages, and one record more if there is one.
    private var window: RecordModel<[Record]>
    /// The number of held pages.
    private var pages = 1
    /// The ids at which the dropped newer pages end, the newest first.
    private var ends: [RecordID] = []
    @ObservationIgnored private let size: Int
    @ObservationIgnored private let client: SanguineClient

    init(_ client: SanguineClient, size: Int) {
        let size = max(1, size)
        (self.client, self.size) = (client, size)
        window = client.model(.newest(size + 1))
    }

    /// Adds or drops a page if the item is at an end of the held ones.
    public func itemAppeared(_ id: RecordID) {
        if id == items.last?.id { loadEarlier() } else if id == items.first?.id { loadLater() }
    }

    /// Adds the page after the last item, and drops the newest page if too many are held.
    public func loadEarlier() {
        guard hasEarlier else { return }
        if pages < RecordLimits.pagerPages {
            pages += 1
        } else {
            ends.append(window.value[size - 1].id)
        }
        follow()
    }

    /// Adds the page before the first item, and drops the oldest page.
    public func loadLater() {
        guard ends.popLast() != nil else { return }
        follow()
    }

    /// Returns to the newest page.
    public func showNewest() {
        (pages, ends) = (1, [])
        follow()
    }

    private func follow() { window = client.model(.newest(pages * size + 1, before: ends.last)) }
}

extension SanguineClient {
    /// Returns an object that pages through the records of a type, the newest first.
    ///
    /// - Parameters:
    ///   - type: The type of the records.
    ///   - size: The number of records in a page. Default: 50.
    /// - Returns: The object, which belongs to the view.
    @MainActor
    public func pager<Record: SyncedRecord>(
        of type: Record.Type = Record.self,
        size: Int = 50
    ) -> RecordPager<Record> {
        RecordPager(self, size: size)
    }
}
