import Foundation
import Sanguine
import SanguineModel
import SanguineTesting
import Synchronization

/// The people in the game of users; each has words that no other person may see.
enum Person: String, CaseIterable, Sendable {
    case ada, bob, cleo

    /// Part of all this person's data.
    var mark: String { "MARK-OF-\(rawValue.uppercased())-" }
    /// Part of this person's operations on the device.
    var deed: String { "DEED-OF-\(rawValue.uppercased())-" }
    /// The balance that identifies the person.
    var tokens: Int64 { [1_001, 2_002, 3_003][Self.allCases.firstIndex(of: self) ?? 0] }

    var deviceId: String { "the-device-of-\(rawValue)" }
}

/// The server of the game of users and the network: each request waits before the server, and each
/// answer after it, until the game releases or loses it.
///
/// The server is an ``InMemoryAuthority`` with some paths of an app's own. When a guest signs in,
/// the person who holds the device is signed in.
///
/// Mutable state: `state`, protected by a mutex. Continuations are resumed, and streams ended,
/// without holding it.
final class UserGameNetwork: Sendable {
    /// The stage at which a message waits.
    enum Place: Sendable { case request, answer }

    private struct Held {
        let number: UInt64
        let process: Int
        let goOn: CheckedContinuation<TransportError?, Never>
    }

    private struct State {
        var holder = Person.ada
        var people: [Identifier: Person] = [:]
        var held: [Held] = []
        var cancelled: Set<UInt64> = []
        var lastNumber: UInt64 = 0
        /// Whether messages pass without waiting.
        var isOpen = false
        /// The processes up to this number are dead.
        var deadProcess = -1
        var streams: [(process: Int, stream: TransportStream)] = []
    }

    let authority = InMemoryAuthority(schema: .userGame)
    private let state = Mutex(State())
    private let notes: Int

    /// Creates a server on which each person has that many notes.
    init(notes: Int) { self.notes = notes }

    /// The person who holds the device.
    var holder: Person {
        get { state.withLock { $0.holder } }
        set { state.withLock { $0.holder = newValue } }
    }

    /// Returns the owner of an account.
    func person(_ account: Identifier) -> Person? { state.withLock { $0.people[account] } }

    /// The accounts of all who have signed in.
    var accounts: [Identifier: Person] { state.withLock { $0.people } }

    // MARK: - Actions of the game

    /// The number of requests and answers that wait.
    var heldCount: Int { state.withLock { $0.held.count } }

    /// Releases a message or loses it.
    func release(_ index: Int, losing error: TransportError? = nil) {
        let held = state.withLock { state in
            state.held.indices.contains(index) ? state.held.remove(at: index) : nil
        }
        held?.goOn.resume(returning: error)
    }

    /// Lets all messages pass, or makes them wait.
    func setOpen(_ isOpen: Bool) {
        let held = state.withLock { state in
            state.isOpen = isOpen
            guard isOpen else { return [Held]() }
            defer { state.held = [] }
            return state.held
        }
        for held in held { held.goOn.resume(returning: nil) }
    }

    /// Disconnects processes permanently.
    func cut(upTo process: Int) {
        let (held, streams) = state.withLock { state in
            state.deadProcess = process
            let held = state.held.filter { $0.process <= process }
            state.held.removeAll { $0.process <= process }
            let streams = state.streams.filter { $0.process <= process }.map(\.stream)
            state.streams.removeAll { $0.process <= process }
            return (held, streams)
        }
        for held in held { held.goOn.resume(returning: .cancelled) }
        for stream in streams { stream.finish(.interrupted("the process is dead")) }
    }

    // MARK: - Messages

    fileprivate func send(
        _ request: TransportRequest,
        _ process: Int
    ) async throws(TransportError) -> TransportResponse {
        // A sign-out ends when the server has been notified, and the game waits for that.
        let isFarewell = request.method == "DELETE"
        if !isFarewell { try await pass(process) }
        let response = await answer(request)
        if !isFarewell { try await pass(process) }
        return response
    }

    fileprivate func stream(
        _ request: TransportRequest,
        _ process: Int
    ) async throws(TransportError) -> TransportStream {
        try await pass(process)
        let stream = try await authority.stream(request)
        let isDead = state.withLock { state in
            state.streams.append((process, stream))
            if state.streams.count > 64 { state.streams.removeFirst(32) }
            return process <= state.deadProcess
        }
        if isDead { stream.finish(.interrupted("the process is dead")) }
        return stream
    }

    private func pass(_ process: Int) async throws(TransportError) {
        let number = state.withLock { state in
            state.lastNumber += 1
            return state.lastNumber
        }
        let error = await withTaskCancellationHandler {
            await withCheckedContinuation { goOn in  // tidy: allow unbounded-wait: see `stop`.
                let early = state.withLock { state -> TransportError?? in
                    guard process > state.deadProcess else { return .some(.cancelled) }
                    guard state.cancelled.remove(number) == nil else { return .some(.cancelled) }
                    guard !state.isOpen else { return .some(nil) }
                    state.held.append(Held(number: number, process: process, goOn: goOn))
                    return nil
                }
                if let early { goOn.resume(returning: early) }
            }
        } onCancel: {
            let held = state.withLock { state -> Held? in
                guard let index = state.held.firstIndex(where: { $0.number == number }) else {
                    state.cancelled.insert(number)
                    return nil
                }
                return state.held.remove(at: index)
            }
            held?.goOn.resume(returning: .cancelled)
        }
        if let error { throw error }
    }

    // MARK: - The server

    private func answer(_ request: TransportRequest) async -> TransportResponse {
        let path = request.url.path()
        if path == "/v1/accounts/guest" { return await signIn(request) }
        guard !path.hasPrefix("/v1/") else { return await authority.answer(request) }
        guard path != "/news" else {
            return Self.json(GameCard(text: "The news are all people's."))
        }
        var question = request
        question.method = "GET"
        question.body = nil
        question.url =
            URL(string: "/v1/account", relativeTo: request.url)?.absoluteURL ?? request.url
        let whose = await authority.answer(question)
        guard whose.status == 200,
            let account = try? JSONDecoder().decode(Account.self, from: whose.body),
            let person = person(account.id)
        else { return whose }
        switch path {
        case "/list": return Self.json(list(of: person, request))
        case "/likes": return TransportResponse(status: 204)
        default: return Self.json(GameCard(text: "\(person.mark)\(path)"))
        }
    }

    private func list(of person: Person, _ request: TransportRequest) -> ListPage<GameRow> {
        let items = URLComponents(string: request.url.absoluteString)?.queryItems ?? []
        let first = items.first { $0.name == "cursor" }?.value.flatMap { Int($0) } ?? 0
        let rows = (first..<first + 3).map { GameRow(id: $0, text: "\(person.mark)row-\($0)") }
        return ListPage(items: rows, hasMore: first < 9, nextCursor: "\(first + 3)")
    }

    /// Signs in the person who holds the device.
    private func signIn(_ request: TransportRequest) async -> TransportResponse {
        let person = holder
        guard let body = try? JSONDecoder().decode(GuestRequest.self, from: request.body ?? Data())
        else { return await authority.answer(request) }
        let guest = GuestRequest(deviceId: person.deviceId, deviceSecret: body.deviceSecret)
        var request = request
        request.body = try? JSONEncoder().encode(guest)
        let response = await authority.answer(request)
        guard let signedIn = try? JSONDecoder().decode(SignedIn.self, from: response.body) else {
            return response
        }
        let account = signedIn.account.id
        let isNew = state.withLock { $0.people.updateValue(person, forKey: account) == nil }
        guard isNew else { return response }
        authority.setBalance(person.tokens, of: account)
        for number in 0..<notes {
            let note = GameNote(id: .game("note-\(number)"), text: "\(person.mark)note-\(number)")
            authority.set(note, of: account)
        }
        return response
    }

    private static func json(_ value: some Encodable) -> TransportResponse {
        let body = (try? JSONEncoder().encode(value)) ?? Data()
        return TransportResponse(
            status: 200,
            headers: ["content-type": "application/json"],
            body: body
        )
    }
}

/// The network connection of one process of the game.
struct UserGameLine: StreamingTransport {
    let network: UserGameNetwork
    let process: Int

    func send(_ request: TransportRequest) async throws(TransportError) -> TransportResponse {
        try await network.send(request, process)
    }

    func stream(_ request: TransportRequest) async throws(TransportError) -> TransportStream {
        try await network.stream(request, process)
    }
}
