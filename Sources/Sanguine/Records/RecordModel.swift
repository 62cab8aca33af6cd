public import Observation

/// A value that is made from records, for a view: an observable property that follows them.
///
/// ```swift
/// struct HabitsView: View {
///     @State var habits: RecordModel<[Habit]>  // client.model(.all(Habit.self))
///
///     var body: some View { ForEach(habits.value) { Text($0.title) } }
/// }
/// ```
///
/// The value is available as soon as the model is created. It changes only if the new value
/// differs, and all models that one change affects are updated in one turn of the main actor. When
/// `perform` is called on the main actor, the value contains its effect when it returns. A model
/// stops following the records when it is released.
@MainActor
@Observable
public final class RecordModel<Value: Sendable & Equatable> {
    /// The query's value.
    public private(set) var value: Value
    /// The reason why a record that the query reads is missing in the value; `nil` if all can be
    /// decoded.
    ///
    /// Such a record is stored, but this version of the app cannot decode it as its type. The error
    /// names the record and the member. A mutation that reads or sets the record is refused.
    public private(set) var error: SanguineError?
    /// Whether the value was made from all of the user's records, as of the last pull.
    ///
    /// `false` until a new device has them: the value then contains the records that are already
    /// there, the newest first. See ``RecordQuery/restoreProgress``.
    public private(set) var isComplete: Bool

    @ObservationIgnored private let following = RecordFollowing<Value>()
    /// Weak, because it holds the models.
    @ObservationIgnored private weak var models: ModelTable?

    /// Fetches all changes of the user's records; see ``SanguineClient/refresh(_:)-(RecordQuery)``.
    @ObservationIgnored private let synchronize: @Sendable () async throws(SanguineError) -> Void

    /// Creates a model whose `value` is the query's current one.
    init(
        _ query: RecordQuery<Value>,
        value: Value,
        isComplete: Bool,
        observers: RecordObservers,
        models: ModelTable,
        mainActorBatch: MainActorBatch,
        synchronize: @escaping @Sendable () async throws(SanguineError) -> Void
    ) {
        self.value = value
        self.isComplete = isComplete
        self.synchronize = synchronize
        self.models = models
        following.start(query, observers, mainActorBatch) { [weak self] in self?.apply($0) }
    }

    /// Returns the model of a query, which all views share if it has an identity.
    static func shared(_ query: RecordQuery<Value>, of users: UserSwitcher) -> RecordModel {
        let services = users.services
        return services.models.model(query.key) {
            RecordModel(
                query,
                value: users.current.records.reading(query.collections, query.read),
                isComplete: users.current.records.isWhole,
                observers: services.records,
                models: services.models,
                mainActorBatch: services.mainActorBatch,
                synchronize: { [weak users] () async throws(SanguineError) in
                    guard let users else { throw .closed }
                    try await users.current.feed.synchronize()
                }
            )
        }
    }

    /// Fetches all of the server's changes to the user's records, for pull-to-refresh.
    ///
    /// The value contains them when this returns, or in the next turn of the main actor. The user's
    /// own record mutations are sent first.
    ///
    /// - Throws: ``SanguineError``; `notConfigured` without a server.
    public func refresh() async throws(SanguineError) { try await synchronize() }

    private func apply(_ answer: RecordAnswer<Value>) {
        guard !following.isOutdated(answer) else { return }
        following.show(answer)
        if isComplete != answer.isComplete { isComplete = answer.isComplete }
        let error = answer.fault.map { SanguineError.problem($0.problem) }
        guard value != answer.value || error != self.error else { return }
        if value != answer.value { value = answer.value }
        if error != self.error { self.error = error }
        models?.startGrace(of: self)
    }
}
