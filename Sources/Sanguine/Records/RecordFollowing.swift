/// Follows a query of records for a model, from the newest answer on.
///
/// Answers are applied once per turn of the main actor, or at once when the user performs a
/// mutation on it. Following ends when this object is released.
@MainActor
final class RecordFollowing<Value: Sendable & Equatable> {
    /// The user's records that the shown answer was made from; `nil` before the first one.
    private(set) weak var source: UserRecords?
    private var revision: UInt64 = 0
    private var token: ObservationToken?

    init() {}

    /// Begins to follow.
    ///
    /// - Parameters:
    ///   - query: The query.
    ///   - observers: The observers of records.
    ///   - mainActorBatch: The turn of the main actor in which models change.
    ///   - apply: Receives the answers. It must hold the model weakly.
    func start(
        _ query: RecordQuery<Value>,
        _ observers: RecordObservers,
        _ mainActorBatch: MainActorBatch,
        _ apply: @escaping @MainActor @Sendable (RecordAnswer<Value>) -> Void
    ) {
        let newest = LastAnswer<Value>()
        let owner = mainActorBatch.newOwner()
        let applyCurrent = { @MainActor @Sendable [weak observers] (answer: RecordAnswer<Value>) in
            // An answer for a user who has left in the meantime is dropped.
            if observers?.isCurrent(answer) == true { apply(answer) }
        }
        let number = observers.observe(query, applyNow: applyCurrent) { answer in
            newest.set(answer)
            mainActorBatch.schedule(
                { if let answer = newest.current { applyCurrent(answer) } },
                for: owner
            )
        }
        token = ObservationToken { [weak observers] in
            if let number { observers?.remove(number) }
        }
    }

    /// Whether an answer is older than the shown one.
    func isOutdated(_ answer: RecordAnswer<Value>) -> Bool {
        answer.source === source && answer.revision < revision
    }

    /// Whether an answer is newer than the shown one, or another user's.
    func isNewer(_ answer: RecordAnswer<Value>) -> Bool {
        answer.source !== source || answer.revision > revision
    }

    /// Records that an answer is shown.
    func show(_ answer: RecordAnswer<Value>) {
        (source, revision) = (answer.source, answer.revision)
    }
}
