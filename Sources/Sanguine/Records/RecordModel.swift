public import Observation
import Synchronization

/// A value made of records, for a view: an observable property that follows them.
///
/// ```swift
/// struct HabitsView: View {
///     @State var habits: RecordModel<[Habit]>  // client.model(.all(Habit.self))
///
///     var body: some View { ForEach(habits.value) { Text($0.title) } }
/// }
/// ```
///
/// The value is there when the model is created. It changes only when it differs, and models that
/// one change concerns change in one turn of the main actor. What `perform` changes on the main
/// actor is in it when that returns. A model stops following when it is released.
@MainActor
@Observable
public final class RecordModel<Value: Sendable & Equatable> {
    /// What the query gives.
    public private(set) var value: Value
    /// Why a record that the query reads is missing in the value; `nil` if all can be read.
    ///
    /// Such a record is stored, and this version of the app cannot decode it as its type. The text
    /// names the record and the member. A mutation that reads or sets the record is refused.
    public private(set) var error: SanguineError?

    @ObservationIgnored private let following: ObservationToken
    /// Weak: it keeps models.
    @ObservationIgnored private weak var models: ModelTable?
    /// Whose records the value was made of, and when.
    @ObservationIgnored private weak var source: UserRecords?
    @ObservationIgnored private var revision: UInt64 = 0

    /// `value` is what the query gives now.
    init(
        _ query: RecordQuery<Value>,
        value: Value,
        observers: RecordObservers,
        models: ModelTable,
        turn: MainTurn
    ) {
        self.value = value
        self.models = models
        let newest = LastAnswer<Value>()
        let relay = RecordRelay<Value>()
        let owner = turn.newOwner()
        let number = observers.observe(
            query,
            applyNow: { [weak observers] in relay.apply($0, observers) }
        ) { [weak observers] answer in
            newest.set(answer)
            turn.schedule({ relay.apply(newest.present, observers) }, for: owner)
        }
        following = ObservationToken { [weak observers] in
            if let number { observers?.remove(number) }
        }
        relay.model = self
    }

    fileprivate func apply(_ answer: RecordAnswer<Value>) {
        // One that was made before what is shown says nothing new.
        guard answer.source !== source || answer.revision >= revision else { return }
        (source, revision) = (answer.source, answer.revision)
        let error = answer.fault.map { SanguineError.problem($0.problem) }
        guard value != answer.value || error != self.error else { return }
        if value != answer.value { value = answer.value }
        if error != self.error { self.error = error }
        models?.changed(self)
    }
}

/// Holds a model weakly for those who tell it of values.
@MainActor
private final class RecordRelay<Value: Sendable & Equatable> {
    weak var model: RecordModel<Value>?

    nonisolated init() {}

    func apply(_ answer: RecordAnswer<Value>?, _ observers: RecordObservers?) {
        // What was made for a user who has left meanwhile is nobody's.
        if let answer, observers?.isPresent(answer) == true { model?.apply(answer) }
    }
}
