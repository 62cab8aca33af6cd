import SanguineModel

/// The declaration that the model of a list shows the user's own records.
struct OwnRecordRows<Item: PageItem>: Sendable where Item.ID: Sendable {
    let query: RecordQuery<OwnRecords>
    let rows: @Sendable ([Item], ListSnapshot<Item>, OwnRecords, Set<RecordID>) -> [Item]
    let ids: @Sendable ([Item]) -> Set<RecordID>
}

extension OwnRecordRows where Item: SyncedRecord {
    init(_ listing: RecordListing<Item>) {
        let merge = OwnRecordMerge(listing: listing)
        query = OwnRecords.query(Item.collection)
        rows = { merge.rows($0, in: $1, own: $2, removed: $3) }
        ids = { Set($0.lazy.map(\.id)) }
    }
}

/// Follows the user's own records for the model of a list.
@MainActor
final class OwnRecordFollowing<Item: PageItem> where Item.ID: Sendable {
    private let declaration: OwnRecordRows<Item>
    private let following = RecordFollowing<OwnRecords>()
    private weak var users: UserSwitcher?
    private var own: OwnRecords
    /// The user's own records that were deleted while the list has them.
    ///
    /// A page that is fetched after the deletion may be a few seconds old.
    private var removed: Set<RecordID> = []

    init(_ declaration: OwnRecordRows<Item>, of users: UserSwitcher) {
        self.declaration = declaration
        self.users = users
        own = Self.current(declaration, users)
    }

    private static func current(
        _ declaration: OwnRecordRows<Item>,
        _ users: UserSwitcher
    ) -> OwnRecords {
        users.current.records.reading(declaration.query.collections, declaration.query.read)
    }

    /// Begins to follow.
    ///
    /// - Parameters:
    ///   - services: The client's services.
    ///   - changed: Called when the rows may have changed. It must hold the model weakly.
    func start(_ services: ClientServices, changed: @escaping @MainActor @Sendable () -> Void) {
        following.start(declaration.query, services.records, services.mainActorBatch) {
            [weak self] answer in
            if self?.apply(answer) == true { changed() }
        }
    }

    private func apply(_ answer: RecordAnswer<OwnRecords>) -> Bool {
        guard !following.isOutdated(answer) else { return false }
        if let former = following.source, former !== answer.source { userChanged() }
        following.show(answer)
        guard own != answer.value else { return false }
        // While records are restored, those that are missing are not deleted.
        if answer.value.isComplete, own.isComplete { removed.formUnion(own.values.keys) }
        removed.subtract(answer.value.values.keys)
        own = answer.value
        return true
    }

    /// Continues with the records of the current user.
    func userChanged() {
        removed = []
        own = users.map { Self.current(declaration, $0) } ?? OwnRecords()
    }

    /// Returns the rows to show.
    func rows(_ listed: [Item], in state: ListSnapshot<Item>) -> [Item] {
        if !removed.isEmpty { removed.formIntersection(declaration.ids(listed)) }
        return declaration.rows(listed, state, own, removed)
    }
}
