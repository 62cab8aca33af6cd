import Foundation
import Sanguine
import SanguineAuthority
import SanguineModel
import SanguineTesting
import Synchronization

/// The network between the devices of the game and their servers: the game decides which message is
/// delivered, duplicated, delayed or lost.
///
/// Mutable state: `state`, protected by a mutex. Callers are resumed, servers called and streams
/// ended without holding it.
final class ClientGameNetwork: Sendable {
    /// The result that a caller receives.
    enum Answer: Sendable {
        case response(TransportResponse)
        case stream(TransportStream)
        case failure(TransportError)
    }

    /// A request or an answer that waits for delivery.
    struct Message: Sendable {
        let number: UInt64
        let device: Int
        let process: Int
        let request: TransportRequest
        let isStream: Bool
        /// The caller that waits for the answer; `nil` if it no longer waits.
        var caller: CheckedContinuation<Answer, Never>?
        var answer: Answer?
        /// Whether a copy of the request is also on its way.
        var isDoubled = false

        /// A description for the trace.
        var line: String {
            "\(answer == nil ? "request" : "answer") \(request.method) \(request.url.path())"
        }
    }

    private struct State {
        var holders: [Int: Person] = [:]
        var people: [Identifier: Person] = [:]
        /// The number of guests that the authority is signing in.
        var signIns = 0
        /// In order of arrival.
        var messages: [Message] = []
        /// Requests that a server is answering.
        var asked: [UInt64: Message] = [:]
        var cancelled: Set<UInt64> = []
        var lastNumber: UInt64 = 0
        var dead: Set<Int> = []
        var streams: [(process: Int, stream: TransportStream)] = []
        var calls: [String: Int] = [:]
        /// Whether the authority lacks some mutations.
        var isOld = false
        /// The number of unknown mutations that it received.
        var deferrals = 0
    }

    let authority: InMemoryAuthority
    let backend: ClientGameBackend
    private let state = Mutex(State())
    private let isLong: Bool

    /// - Parameters:
    ///   - seed: The seed that determines the backend's failures.
    ///   - clock: The wall clock that all devices share.
    ///   - delay: The clock for the server's delays.
    ///   - rows: The number of rows that the shared list has initially.
    ///   - isLong: Whether each person's feed is long enough to be restored in ranges.
    init(seed: UInt64, clock: any WallClock, delay: ManualClock, rows: Int, isLong: Bool) {
        authority = InMemoryAuthority(schema: .clientGame, clock: clock, delay: delay)
        backend = ClientGameBackend(seed: seed, rows: rows)
        self.isLong = isLong
        authority.refuse { [weak self] operation in
            if operation.mutator == DeepenTally.name, self?.defers() == true {
                return Refusal(.mutatorUnknown, "Deploy a server that declares the mutation.")
            }
            let text = (try? JSONEncoder().encode(operation.arguments)) ?? Data()
            guard text.range(of: Data(Deed.poison.utf8)) != nil else { return nil }
            return Refusal(.invalidContent, "The game refuses this one.")
        }
        authority.serve(GameCall.self, price: GameCall.price, hold: GameCall.expectedCost) {
            [weak self] question in
            self?.answers(question)
            return "You said \(question)."
        }
        serveThreads(delay)
    }

    /// Serves the functions that store their answers in threads.
    private func serveThreads(_ delay: ManualClock) {
        authority.serve(GameAsk.self, price: GameAsk.price, hold: GameAsk.expectedCost) {
            [weak self] question in
            self?.answers(question)
            return "\(question) is answered"
        }
        authority.serve(GameTell.self, price: GameTell.price, hold: GameTell.expectedCost) {
            [weak self] question, write in
            for part in [question, " is", " streamed"] {
                await write(part)
                try await delay.sleep(for: .milliseconds(300))
                try Self.failIfAsked(question)
            }
            self?.answers(question)
            return "\(question) is streamed"
        }
        authority.serve(GameFreeAsk.self, price: 0) { [weak self] question in
            try Self.failIfAsked(question)
            self?.answers(question)
            return "\(question) is free"
        }
    }

    private static func failIfAsked(_ question: String) throws {
        guard question.hasSuffix(GameTell.failure) else { return }
        throw Problem(.upstreamFailed, "The game fails this one.")
    }

    private func answers(_ question: String) {
        state.withLock { $0.calls[question, default: 0] += 1 }
    }

    // MARK: - Versions and copies

    /// Whether the authority does not know ``DeepenTally`` yet.
    var isOld: Bool {
        get { state.withLock { $0.isOld } }
        set { state.withLock { $0.isOld = newValue } }
    }

    /// The number of unknown mutations that the authority received.
    var deferrals: Int { state.withLock { $0.deferrals } }

    private func defers() -> Bool {
        state.withLock { state in
            if state.isOld { state.deferrals += 1 }
            return state.isOld
        }
    }

    /// The epoch of the authority.
    var epoch: Epoch { authority.authority.storage.epoch }

    /// The people who have an account.
    var known: [Identifier: Person] { state.withLock { $0.people } }

    /// Whether the authority may have created an account that ``known`` does not contain yet.
    var isSigningIn: Bool { state.withLock { $0.signIns > 0 } }

    // MARK: - People

    /// Sets the person that a guest signing in on the device is.
    func setHolder(_ person: Person, of device: Int) {
        state.withLock { $0.holders[device] = person }
    }

    func holder(of device: Int) -> Person { state.withLock { $0.holders[device] ?? .ada } }

    /// Returns the owner of an account.
    func person(_ account: Identifier) -> Person? { state.withLock { $0.people[account] } }

    /// Returns a person's account, or `nil` before they have signed in anywhere.
    func account(_ person: Person) -> Identifier? {
        state.withLock { $0.people.first { $0.value == person }?.key }
    }

    /// The inputs of the function calls that were executed, with their counts.
    var calls: [String: Int] { state.withLock { $0.calls } }

    // MARK: - Actions of the game

    /// The messages that wait for delivery.
    var messages: [Message] { state.withLock { $0.messages } }

    /// Delivers a request to its server, or an answer to its caller.
    func deliver(_ number: UInt64) {
        guard let message = take(number) else { return }
        guard message.answer == nil else { return giveBack(message) }
        state.withLock { $0.asked[number] = message }
        Task { [self] in
            var answer = await serve(message)
            // A rejected caller may rely on the request having no effect, now or later.
            if message.isDoubled, case .response(let response) = answer, response.status == 503 {
                answer = .failure(.interrupted("turned away, once"))
            }
            arrived(answer, for: number)
        }
    }

    /// Loses a message and tells its caller that the connection broke.
    ///
    /// - Parameters:
    ///   - number: The message.
    ///   - isLate: Whether a request still arrives later.
    func lose(_ number: UInt64, isLate: Bool) {
        guard var message = take(number) else { return }
        let caller = message.caller
        message.caller = nil
        if isLate, message.answer == nil {
            state.withLock { $0.messages.append(message) }
        }
        caller?.resume(returning: .failure(.interrupted("lost")))
    }

    /// Duplicates a request.
    func double(_ number: UInt64) {
        state.withLock { state in
            guard let message = state.messages.first(where: { $0.number == number }),
                message.answer == nil
            else { return }
            state.lastNumber += 1
            state.messages.append(
                Message(
                    number: state.lastNumber,
                    device: message.device,
                    process: message.process,
                    request: message.request,
                    isStream: message.isStream,
                    isDoubled: true
                )
            )
            for index in state.messages.indices where state.messages[index].number == number {
                state.messages[index].isDoubled = true
            }
        }
    }

    /// Loses all messages and ends all streams, as a server that is killed and started again does.
    func breakConnections() {
        for message in messages { lose(message.number, isLate: false) }
        let streams = state.withLock { state in
            defer { state.streams = [] }
            return state.streams.map(\.stream)
        }
        authority.endStreams()
        for stream in streams { stream.finish(.interrupted("the server is dead")) }
    }

    /// Disconnects a process permanently; messages that it has sent are still delivered.
    func cut(_ process: Int) {
        let (callers, streams) = state.withLock { state in
            state.dead.insert(process)
            var callers: [CheckedContinuation<Answer, Never>] = []
            for index in state.messages.indices where state.messages[index].process == process {
                if let caller = state.messages[index].caller { callers.append(caller) }
                state.messages[index].caller = nil
            }
            for number in state.asked.keys.sorted() where state.asked[number]?.process == process {
                if let caller = state.asked[number]?.caller { callers.append(caller) }
                state.asked[number]?.caller = nil
            }
            state.messages.removeAll { $0.process == process && $0.answer != nil }
            let streams = state.streams.filter { $0.process == process }.map(\.stream)
            state.streams.removeAll { $0.process == process }
            return (callers, streams)
        }
        for caller in callers { caller.resume(returning: .failure(.cancelled)) }
        for stream in streams { stream.finish(.interrupted("the process is dead")) }
    }

    // MARK: - Messages

    fileprivate func answer(
        to request: TransportRequest,
        from device: Int,
        _ process: Int,
        isStream: Bool
    ) async -> Answer {
        let number = state.withLock { state in
            state.lastNumber += 1
            return state.lastNumber
        }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { caller in  // tidy: allow unbounded-wait: see `cut`.
                let isOver = state.withLock { state in
                    guard !state.dead.contains(process), state.cancelled.remove(number) == nil
                    else { return true }
                    state.messages.append(
                        Message(
                            number: number,
                            device: device,
                            process: process,
                            request: request,
                            isStream: isStream,
                            caller: caller
                        )
                    )
                    return false
                }
                if isOver { caller.resume(returning: .failure(.cancelled)) }
            }
        } onCancel: {
            cancel(number)
        }
    }

    /// Ends the caller's wait; a request is still delivered.
    private func cancel(_ number: UInt64) {
        let caller = state.withLock { state -> CheckedContinuation<Answer, Never>? in
            if let index = state.messages.firstIndex(where: { $0.number == number }) {
                defer { state.messages[index].caller = nil }
                return state.messages[index].caller
            }
            if let caller = state.asked[number]?.caller {
                state.asked[number]?.caller = nil
                return caller
            }
            state.cancelled.insert(number)
            return nil
        }
        caller?.resume(returning: .failure(.cancelled))
    }

    private func take(_ number: UInt64) -> Message? {
        state.withLock { state in
            state.messages.firstIndex { $0.number == number }.map { state.messages.remove(at: $0) }
        }
    }

    private func giveBack(_ message: Message) {
        guard let answer = message.answer else { return }
        if case .stream(let stream) = answer {
            state.withLock { $0.streams.append((message.process, stream)) }
        }
        message.caller?.resume(returning: answer)
    }

    private func arrived(_ answer: Answer, for number: UInt64) {
        state.withLock { state in
            guard var message = state.asked.removeValue(forKey: number), message.caller != nil
            else { return }
            message.answer = answer
            state.messages.append(message)
        }
    }

    // MARK: - The servers

    private func serve(_ message: Message) async -> Answer {
        if message.isStream {
            do throws(TransportError) {
                return .stream(try await authority.stream(message.request))
            } catch {
                return .failure(error)
            }
        }
        let path = message.request.url.path()
        if path == "/v1/accounts/guest" { return .response(await signIn(message)) }
        guard !path.hasPrefix("/v1/") else {
            return .response(await authority.answer(message.request))
        }
        var question = message.request
        question.method = "GET"
        question.body = nil
        question.url =
            URL(string: "/v1/account", relativeTo: question.url)?.absoluteURL ?? question.url
        let whose = await authority.answer(question)
        guard whose.status == 200,
            let account = try? JSONDecoder().decode(Account.self, from: whose.body),
            let person = person(account.id)
        else { return .response(whose) }
        return .response(backend.answer(message.request, of: person))
    }

    /// Signs in the person who holds the device; one account on all devices.
    private func signIn(_ message: Message) async -> TransportResponse {
        let person = holder(of: message.device)
        var request = message.request
        let secret = Data(repeating: UInt8(person.rawValue.utf8.count), count: 32)
            .base64EncodedString().replacing("=", with: "").replacing("/", with: "_")
            .replacing("+", with: "-")
        request.body = try? JSONEncoder().encode(
            GuestRequest(deviceId: person.deviceId, deviceSecret: secret)
        )
        state.withLock { $0.signIns += 1 }
        defer { state.withLock { $0.signIns -= 1 } }
        let response = await authority.answer(request)
        guard let signedIn = try? JSONDecoder().decode(SignedIn.self, from: response.body) else {
            return response
        }
        let account = signedIn.account.id
        let isNew = state.withLock { $0.people.updateValue(person, forKey: account) == nil }
        if isNew { furnish(account) }
        return response
    }

    private func furnish(_ account: Identifier) {
        authority.setBalance(1_000, of: account)
        // Stored as by the first version of the app.
        for id in GameTally.ids { authority.set(OldGameTally(id: id), of: account) }
        guard isLong else { return }
        let ids = (0..<1_100).compactMap { RecordID("f\($0)") }
        for turn in 0..<44 {
            try? authority.change(of: account) { records in
                for id in ids[(turn % 11 * 100)..<(turn % 11 * 100 + 100)] {
                    records.set(GameFiller(id: id, turn: turn))
                }
            }
        }
    }
}

/// The network connection of one process of the game.
struct ClientGameLine: StreamingTransport {
    let network: ClientGameNetwork
    let device: Int
    let process: Int

    func send(_ request: TransportRequest) async throws(TransportError) -> TransportResponse {
        switch await network.answer(to: request, from: device, process, isStream: false) {
        case .response(let response): return response
        case .failure(let error): throw error
        case .stream: throw .invalid("a stream for a request")
        }
    }

    func stream(_ request: TransportRequest) async throws(TransportError) -> TransportStream {
        switch await network.answer(to: request, from: device, process, isStream: true) {
        case .stream(let stream): return stream
        case .failure(let error): throw error
        case .response: throw .invalid("a response for a stream")
        }
    }
}
