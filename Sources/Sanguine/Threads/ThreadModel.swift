public import Observation
public import SanguineModel
import Synchronization

/// A thread as an observable object for SwiftUI views.
///
/// ```swift
/// struct ConversationView: View {
///     @State var thread: ThreadModel  // client.threads.model(of: id)
///
///     var body: some View {
///         ForEach(thread.messages) { Text($0.text) }
///         Button("Ask") { try? thread.ask(Chat(question: text)) }
///     }
/// }
/// ```
///
/// The last messages are available when the model is created, also without a network. A question is
/// among them when ``ask(_:)`` returns, with an answer that is being made. The text of the answer
/// grows on each of the user's devices that shows the thread. All other changes are applied once
/// per turn of the main actor, and a property changes only when its value does. The model holds at
/// most ``MessageLimits/window`` messages. Views of the same thread share one model; after a
/// sign-out it is empty.
@MainActor
@Observable
public final class ThreadModel {
    /// The thread's id.
    @ObservationIgnored public let id: RecordID
    /// The thread; `nil` if it does not exist: before its first question, and after its deletion.
    public private(set) var thread: ChatThread?
    /// The messages, oldest first.
    public private(set) var messages: [ThreadMessage] = []
    /// Whether the thread has messages before the first one; see ``loadEarlier()``.
    public private(set) var hasEarlier = false
    /// Whether the thread has messages after the last one; see ``loadLater()``.
    public private(set) var hasLater = false
    /// The reason why the last question left no message, until the next question; why a message
    /// cannot be decoded; or why an answer cannot be read while it is made, see ``retry()``.
    public private(set) var error: SanguineError?

    /// Whether an answer is being made.
    public var isAnswering: Bool { messages.contains { $0.phase == .making } }

    /// Weak, because the client retains its models.
    @ObservationIgnored private weak var users: UserSwitcher?
    @ObservationIgnored private weak var models: ModelTable?
    @ObservationIgnored private let window = GuardedValue(MessageWindow())
    @ObservationIgnored private let following = RecordFollowing<ThreadContents>()
    @ObservationIgnored private var followingNetwork: ObservationToken?
    @ObservationIgnored private var contents = ThreadContents()
    @ObservationIgnored private var fault: SanguineError?
    /// The answers that are read while they are made, by the keys of their calls.
    @ObservationIgnored private var readers: [String: AnswerReader] = [:]
    /// Whether a call is being begun, whose answer is read by ``ask(_:)``.
    @ObservationIgnored private var isAsking = false
    @ObservationIgnored private let mainActorBatch: MainActorBatch
    @ObservationIgnored private let owner: UInt64

    static func key(_ id: RecordID) -> QueryKey {
        QueryKey(name: "$thread.model", parameters: [id.text])
    }

    init(_ id: RecordID, _ users: UserSwitcher) {
        self.id = id
        self.users = users
        let services = users.services
        models = services.models
        mainActorBatch = services.mainActorBatch
        owner = mainActorBatch.newOwner()
        let online = services.configuration.connectivity.isOnline
        following.start(query, services.records, mainActorBatch) { [weak self] in self?.apply($0) }
        followingNetwork = online.follow(
            mainActorBatch.scheduling { [weak self] in self?.networkChanged() }
        )
        applyNewest()
    }

    deinit { for reader in readers.values { reader.task.cancel() } }

    private var query: RecordQuery<ThreadContents> {
        .thread(id) { [window] in window.value }
    }

    // MARK: - Asking

    /// Asks a question in the thread: calls a metered function that keeps history.
    ///
    /// When this returns, ``messages`` contains the question, and an answer that is being made or
    /// waits for a network. If the call is refused, now or later, both disappear, and ``error`` is
    /// the reason. The call continues if the model is released.
    ///
    /// - Returns: The key of the call, for ``SanguineClient/result(of:key:)``.
    /// - Throws: ``SanguineError`` if the call was not begun; then there are no new messages.
    @discardableResult
    public func ask<Call: FunctionCall>(_ call: Call) throws(SanguineError) -> String {
        guard let users else { throw .closed }
        let user = users.current
        if hasLater { loadNewest() }
        isAsking = true
        defer { isAsking = false }
        do throws(SanguineError) {
            let stream = try user.functions.open(call, in: id)
            read(stream, of: user)
            return stream.key
        } catch {
            user.threads.pending.refused(in: id, error)
            throw error
        }
    }

    /// Ends the answer that is being made, and charges for the part that was made.
    ///
    /// A question that waits for a network is withdrawn.
    ///
    /// - Returns: The charge, in the balance's unit; 0 if no answer is being made.
    /// - Throws: ``SanguineError``: `operation_in_progress` for a call that cannot be stopped.
    @discardableResult
    public func stop() async throws(SanguineError) -> Int64 {
        guard let users else { throw .closed }
        let last = messages.last { $0.phase == .making || $0.phase == .waiting }
        guard let key = last?.record.call else { return 0 }
        return try await users.current.functions.cancel(key)
    }

    /// Removes ``error``.
    public func dismissError() {
        for key in readers.keys { readers[key]?.isDismissed = true }
        users?.current.threads.pending.refused(in: id, nil)
        showContents()
    }

    /// Reads the answers again that could not be read while they are made; see ``error``.
    ///
    /// The call itself is not repeated. Without a retry, the feed brings the whole answer when it
    /// is complete. Answers whose connection was lost with the network are read again without this.
    public func retry() {
        for (key, reader) in readers where reader.failure != nil {
            readers[key]?.mustReadAgain = true
        }
        readAnswers()
    }

    // MARK: - Changing

    /// Gives the thread a title; see ``Threads/rename(_:to:)``.
    ///
    /// - Throws: The errors of ``Threads/rename(_:to:)``; ``SanguineError/closed``.
    @discardableResult
    public func rename(to title: String) throws(SanguineError) -> Receipt {
        try threads().rename(id, to: title)
    }

    /// Changes the thread's area or settings; see ``Threads/set(_:area:settings:)``.
    ///
    /// - Throws: The errors of ``Threads/set(_:area:settings:)``; ``SanguineError/closed``.
    @discardableResult
    public func set(
        area: String? = nil,
        settings: JSONValue? = nil
    ) throws(SanguineError) -> Receipt {
        try threads().set(id, area: area, settings: settings)
    }

    /// Deletes the thread with its messages; see ``Threads/delete(_:)``.
    ///
    /// - Throws: The errors of ``Threads/delete(_:)``; ``SanguineError/closed``.
    @discardableResult
    public func delete() throws(SanguineError) -> Receipt { try threads().delete(id) }

    private func threads() throws(SanguineError) -> Threads {
        guard let users else { throw .closed }
        return Threads(users: users)
    }

    /// Fetches all of the server's changes to the user's records, for pull-to-refresh, and reads
    /// answers again; see ``retry()``.
    ///
    /// - Throws: ``SanguineError``; `notConfigured` without a server.
    public func refresh() async throws(SanguineError) {
        guard let users else { throw .closed }
        retry()
        try await users.current.feed.synchronize()
    }

    // MARK: - Paging

    /// Shows a page of earlier messages from this device.
    ///
    /// If there are more than ``MessageLimits/window`` messages then, the newest are released.
    public func loadEarlier() {
        guard let first = contents.stored?.lowerBound, first > 0, let users else { return }
        let page = users.current.records.reading(ThreadContents.collections) { [id] reader in
            reader.messages(of: id, from: 0, through: first - 1, limit: MessageLimits.page)
        }
        guard let newFirst = page.first?.position else { return }
        let positions = page.map(\.position) + storedPositions
        var next = MessageWindow(first: newFirst, last: window.value.last)
        if positions.count > MessageLimits.window {
            next.last = positions[MessageLimits.window - 1]
        }
        show(next)
    }

    /// Shows a page of later messages from this device, after earlier ones were loaded.
    ///
    /// If there are more than ``MessageLimits/window`` messages then, the oldest are released.
    public func loadLater() {
        guard hasLater, let last = contents.stored?.upperBound, let users else { return }
        let page = users.current.records.reading(ThreadContents.collections) { [id] reader in
            reader.messages(of: id, after: last, limit: MessageLimits.page)
        }
        let positions = storedPositions + page.map(\.position)
        let isEnd = page.count < MessageLimits.page
        show(
            MessageWindow(
                first: positions.suffix(MessageLimits.window).first,
                last: isEnd ? nil : page.last?.position
            )
        )
    }

    /// Shows the last messages only.
    public func loadNewest() { show(MessageWindow()) }

    private var storedPositions: [Int] {
        guard let stored = contents.stored else { return [] }
        return contents.messages.map(\.record.position).filter { stored.contains($0) }
    }

    private func show(_ next: MessageWindow) {
        window.value = next
        applyNewest()
    }

    // MARK: - Updates

    func applyNewest() {
        guard let users, let answer = users.services.records.answer(to: query) else { return }
        apply(answer)
    }

    private func apply(_ answer: RecordAnswer<ThreadContents>) {
        guard !following.isOutdated(answer) else { return }
        guard answer.value.window == window.value else {
            // It was made before the window has changed.
            if following.isNewer(answer) { applyNewest() }
            return
        }
        if answer.source !== following.source { endReaders() }
        following.show(answer)
        contents = answer.value
        fault = answer.fault.map { .problem($0.problem) }
        // The first message stays while others follow the last one.
        if contents.window.first == nil, let first = contents.stored?.lowerBound {
            contents.window.first = first
        }
        // The window follows the end of the thread again.
        if !contents.hasLater { contents.window.last = nil }
        window.value = contents.window
        showContents()
        readAnswers()
    }

    private func showContents() {
        var shown = contents.messages
        for index in shown.indices where shown[index].text.isEmpty {
            let message = shown[index]
            guard message.phase == .making || message.phase == .cut, let key = message.record.call,
                let text = readers[key]?.shownText
            else { continue }
            shown[index].record.text = text
        }
        var isOther = false
        func set<Value: Equatable>(
            _ property: ReferenceWritableKeyPath<ThreadModel, Value>,
            _ value: Value
        ) {
            guard self[keyPath: property] != value else { return }
            self[keyPath: property] = value
            isOther = true
        }
        set(\.thread, contents.thread)
        set(\.messages, shown)
        set(\.hasEarlier, contents.hasEarlier)
        set(\.hasLater, contents.hasLater)
        set(\.error, contents.refusal ?? fault ?? readFailure)
        if isOther { models?.startGrace(of: self) }
    }

    // MARK: - Answers that are being made

    /// The reason why the last answer that is being made cannot be read.
    private var readFailure: SanguineError? {
        let making = contents.messages.filter { $0.phase == .making }.compactMap(\.record.call)
        return making.compactMap { readers[$0] }.last { $0.failure != nil && !$0.isDismissed }?
            .failure
    }

    /// Reads the answers that are being made, as far as the limit allows.
    private func readAnswers() {
        guard let users, !isAsking,
            users.services.configuration.connectivity.isOnline.value
        else { return }
        let user = users.current
        guard user.records === following.source else { return }
        let making = contents.messages.filter { $0.phase == .making }.compactMap(\.record.call)
        let isMaking = Set(making)
        readers = readers.filter { !$1.isDone || isMaking.contains($0) }
        for key in making.reversed() where readers[key]?.mustReadAgain ?? true {
            guard readers.values.count(where: { !$0.isDone }) < MessageLimits.followedAnswers
            else { return }
            do throws(SanguineError) {
                read(try user.functions.reopen(key), of: user)
            } catch {
                // The feed brings the answer, or its end.
                begin(key, GuardedValue(""), Task {})
                end(key, error)
            }
        }
    }

    private func read(_ stream: CallStream, of user: UserScope) {
        let text = GuardedValue("")
        let (key, pending) = (stream.key, user.threads.pending)
        let task = Task.detached { [weak self, mainActorBatch, owner] in
            var failure: SanguineError?
            do throws(SanguineError) {
                while let part = try await stream.part() {
                    text.update { $0 += part }
                    mainActorBatch.schedule({ self?.showContents() }, for: owner)
                }
            } catch {
                failure = error
                pending.keep(text.value, of: key)
            }
            // Otherwise the call continues, and is found by its key.
            guard failure != .cancelled else { return }
            pending.persist()
            await stream.resultRead(as: JSONValue.self)
            mainActorBatch.schedule(
                { [failure] in self?.ended(key, failure) },
                for: mainActorBatch.newOwner()
            )
        }
        begin(key, text, task)
        showContents()
    }

    private func begin(_ key: String, _ text: GuardedValue<String>, _ task: Task<Void, Never>) {
        let before = readers[key]?.shownText ?? ""
        readers[key] = AnswerReader(text: text, task: task, textBefore: before)
    }

    private func ended(_ key: String, _ failure: SanguineError?) {
        end(key, failure)
        readAnswers()
    }

    /// Ends the reading of an answer, and shows why if it must be retried.
    private func end(_ key: String, _ failure: SanguineError?) {
        readers[key]?.isDone = true
        let isOnline = users?.services.configuration.connectivity.isOnline.value == true
        // A network that returns starts another attempt. The end of a call is shown as a message.
        if isOnline, failure?.isEndOfCall != true { readers[key]?.failure = failure }
        showContents()
    }

    /// Reads answers again whose connections were lost with the network.
    private func networkChanged() {
        guard users?.services.configuration.connectivity.isOnline.value == true else { return }
        for (key, reader) in readers where reader.isDone { readers[key]?.mustReadAgain = true }
        readAnswers()
    }

    private func endReaders() {
        for reader in readers.values { reader.task.cancel() }
        readers = [:]
    }
}

extension ThreadModel: FollowingModel {
    func userChanged() {
        window.value = MessageWindow()
        applyNewest()
    }
}

/// An answer that is read while it is made.
private struct AnswerReader: Sendable {
    let text: GuardedValue<String>
    let task: Task<Void, Never>
    /// The text that an earlier attempt read, which is shown until this one has read as much.
    let textBefore: String
    /// Whether reading has ended.
    var isDone = false
    /// The reason why it ended before the answer did.
    var failure: SanguineError?
    /// Whether the user has dismissed the failure.
    var isDismissed = false
    /// Whether another attempt is due.
    var mustReadAgain = false

    var shownText: String {
        let text = text.value
        return text.utf8.count < textBefore.utf8.count ? textBefore : text
    }
}

/// A value guarded by a mutex.
private final class GuardedValue<Value: Sendable>: Sendable {
    private let guarded: Mutex<Value>

    init(_ value: Value) { guarded = Mutex(value) }

    var value: Value {
        get { guarded.withLock { $0 } }
        set { guarded.withLock { $0 = newValue } }
    }

    func update(_ body: (inout Value) -> Void) { guarded.withLock { body(&$0) } }
}
