public import AlmanacModel
public import AlmanacSky
import Foundation
public import Observation
public import Sanguine

/// The state of the app's screens and the actions of their buttons.
@MainActor
@Observable
public final class AlmanacScreen {
    /// A question that was asked in a thread.
    public struct Asked: Sendable {
        /// The thread, which shows the question and its answer.
        public let thread: ThreadModel
        /// The key of the call.
        public let key: String
    }

    private let client: SanguineClient
    private let clock: any WallClock
    private let account: AccountModel
    private let couples: RecordModel<[Match]>
    private let progress: RecordModel<RestoreProgress>
    /// The lists of threads that views show, which follow the records as long as they are held.
    @ObservationIgnored private var lists: [Area?: RecordModel<[ChatThread]>] = [:]
    /// The models that were read last.
    @ObservationIgnored private var shown: (birth: BirthData, day: CalendarDay, models: Models)?
    /// The user's current day.
    public private(set) var today: CalendarDay

    /// The values of one birth and day.
    private struct Models {
        let data: ValueModel<AstroData>
        let prediction: ValueModel<String>
    }

    public init(_ client: SanguineClient, clock: any WallClock = SystemWallClock()) {
        (self.client, self.clock, account) = (client, clock, client.account.model)
        (couples, progress) = (client.model(.matches), client.model(.restoreProgress))
        today = Self.day(of: client, clock)
    }

    // MARK: - State

    /// The user's birth; `nil` until it is entered on one of the user's devices.
    public var birth: BirthData? {
        _ = account.settings  // Notifies views. The client's value is already the newest.
        return client.account.current.settings.decoded(as: AlmanacSettings.self).birth
    }

    /// The chart with its periods and transits, in the first frame and without a network.
    public var data: AstroData? { models?.data.value }

    /// The prediction of the day; `nil` until it has arrived.
    public var prediction: String? { models?.prediction.value }

    /// The reason why the newest values could not be fetched.
    public var error: SanguineError? { models?.data.error ?? models?.prediction.error }

    /// The subscription, as the server has last told it.
    public var plan: Account.Plan { account.plan }

    /// The spendable balance, with running questions deducted.
    public var balance: Balance? { client.cached(.balance) }

    /// The compared couples, the newest first.
    public var matches: [Match] { couples.value }

    /// The restored part of everything that the user has, on a new device.
    public var restore: RestoreProgress { progress.value }

    /// Returns the threads of an area, or all of them, the one with the newest question first.
    public func threads(in area: Area? = nil) -> [ChatThread] {
        let list = lists[area] ?? client.threads.model(in: area?.rawValue)
        lists[area] = list
        return list.value
    }

    /// Returns a thread with its messages, also without a network.
    public func thread(_ id: RecordID) -> ThreadModel { client.threads.model(of: id) }

    // MARK: - Actions

    /// Sets the user's birth, on all devices, where values of the former birth become stale.
    public func setBirth(_ birth: BirthData) throws {
        try client.account.update(AlmanacSettings.self) { $0.birth = birth }
    }

    /// Asks a question about the user's birth, in a new thread or another one; `nil` without a
    /// birth.
    @discardableResult
    public func ask(
        _ question: String,
        in area: Area = .life,
        thread id: RecordID = .new()
    ) throws -> Asked? {
        guard let birth else { return nil }
        return try ask(Predict(question, about: birth, on: today, in: area), id)
    }

    /// Returns the points of two persons, which this device computes.
    public func points(groom: BirthData, bride: BirthData) -> Compatibility {
        Compatibility(groom: groom, bride: bride)
    }

    /// Asks the model to explain the points of two people, in the thread of their match.
    @discardableResult
    public func explain(groom: BirthData, bride: BirthData) throws -> Asked {
        let known = matches.first { $0.groom == groom && $0.bride == bride }
        let match = known ?? Match(groom: groom, bride: bride)
        if known == nil { try client.perform(CreateRecord(match)) }
        return try ask(ExplainMatch(groom: groom, bride: bride), match.id)
    }

    /// Deletes a thread with its messages, and the match to which it belongs, on all devices.
    public func delete(_ thread: RecordID) throws {
        try client.threads.delete(thread)
        if client.record(Match.self, thread) != nil {
            try client.perform(DeleteRecord(Match.self, thread))
        }
    }

    /// Returns the positions at a moment, computed by the server each time.
    public func sky(at moment: Moment, in zodiac: Zodiac = .sidereal) async throws -> SkyReport {
        try await client.call(UseTools(at: moment, in: zodiac))
    }

    /// Sends the user's opinion of an answer, now or when there is a network.
    public func rate(_ function: String, isHelpful: Bool, comment: String = "") throws {
        try client.perform(SendFeedback(on: function, isHelpful: isHelpful, comment: comment))
    }

    /// Signs the user out: nothing of the user stays on the device or on the screen.
    public func signOut() async { await client.signOut() }

    /// Fetches what is shown, for pull to refresh; the chart does not wait for the language model.
    public func refresh() async {
        guard let models else { return }
        async let data: Void = models.data.refresh()
        async let prediction: Void = models.prediction.refresh()
        _ = await (data, prediction)
    }

    /// Follows midnights and time zones until the task is cancelled, as `.task { await … }` of a
    /// view.
    public func followDays(clock: any Clock<Duration> = ContinuousClock()) async {
        repeat { dayMayHaveChanged() } while (try? await clock.sleep(for: .seconds(30))) != nil
    }

    /// Applies a new day or another time zone; an app calls it when it returns.
    public func dayMayHaveChanged() {
        let now = Self.day(of: client, clock)
        if now != today { today = now }
    }

    // MARK: - Steps

    /// The models of the current birth and day.
    private var models: Models? {
        guard let birth else { return nil }
        if let shown, shown.birth == birth, shown.day == today { return shown.models }
        let models = Models(
            data: client.model(.astroData(of: birth, in: year)),
            prediction: client.model(.prediction(for: birth, on: today))
        )
        shown = (birth, today, models)
        return models
    }

    /// The year of the user's day.
    private var year: Int { Int("\(today)".prefix(4)) ?? 0 }

    private func ask(_ call: some FunctionCall, _ id: RecordID) throws -> Asked {
        let thread = thread(id)
        return Asked(thread: thread, key: try thread.ask(call))
    }

    private static func day(of client: SanguineClient, _ clock: any WallClock) -> CalendarDay {
        CalendarDay(containing: clock.now(), in: TimeZone(identifier: client.timeZone) ?? .current)
    }
}
