import Foundation
import SanguineModel
import SanguineTesting

@testable import Sanguine

/// An authority in memory whose requests a test can stop at a certain stage.
///
/// A test waits for stopped requests, then releases or fails them. Nothing sleeps. The function
/// `ask` costs and holds 3 tokens.
final class StagedAuthority: HTTPTransport {
    /// A stage at which a request can be stopped.
    enum Stage: Hashable {
        /// Before the server receives it.
        case request
        /// Between a call's hold and its settlement.
        case work
        /// After all the work, before the client receives the answer.
        case answer
    }

    private struct Stop: Hashable {
        let path: String
        let stage: Stage
    }

    private struct Stopped {
        let number: Int
        let stop: Stop
    }

    private struct State {
        var requests: [TransportRequest] = []
        /// Answers that replace the server's, by path, in order.
        var scripted: [String: [TransportResponse]] = [:]
        var stops: Set<Stop> = []
        var stopped: [Stopped] = []
        /// The results for stopped requests that were released, by number.
        var released: [Int: TransportError?] = [:]
        var numbers = 0

        func count(_ stop: Stop) -> Int { stopped.count { $0.stop == stop } }

        /// The current state, for the message of a wait that times out.
        var summary: String {
            let there = stopped.map { "\($0.stop.path) at the \($0.stop.stage)" }
            return "\(there) are stopped, after \(requests.count) requests"
        }
    }

    /// The server.
    let server: InMemoryAuthority
    private let state = WatchedState(State())

    init(clock: any WallClock) {
        server = InMemoryAuthority(clock: clock)
        serveAsk()
    }

    /// Serves `ask`, which costs and holds that many tokens, or fails.
    func serveAsk(price: Int64 = 3, hold: Int64 = 3, fails: Bool = false) {
        server.serve(Ask.self, price: price, hold: hold) { [weak self] _ in
            // The work is done whether or not the client stays connected.
            try? await self?.pass("/v1/functions/ask", .work)
            if fails { throw Problem(.upstreamFailed, "A test's refusal.") }
            return "an answer"
        }
    }

    // MARK: Requests

    /// Returns the number of requests to the path.
    func count(_ path: String) -> Int { requests(path).count }

    func requests(_ path: String) -> [TransportRequest] {
        state.withLock { $0.requests.filter { $0.url.path() == path } }
    }

    /// The devices that have signed in, with their accounts.
    var devices: [String: Identifier] {
        let guests = requests("/v1/accounts/guest").compactMap {
            try? WireCoding.decode(GuestRequest.self, from: $0.body ?? Data()).deviceId
        }
        return guests.reduce(into: [:]) { $0[$1] = server.account(ofDevice: $1) }
    }

    // MARK: Answers

    /// Answers the next request to the path with this problem.
    func refuse(_ path: String, _ problem: Problem) { server.fail(path, with: problem) }

    /// Answers the next requests to the path with these responses.
    func script(_ path: String, _ responses: [TransportResponse]) {
        state.withLock { $0.scripted[path, default: []] += responses }
    }

    /// Rejects every access token issued so far.
    func expireTokens() { server.expireTokens() }

    // MARK: Stopping

    func stop(_ path: String, at stage: Stage) {
        state.withLock { _ = $0.stops.insert(Stop(path: path, stage: stage)) }
    }

    /// Stops no further requests there; requests already stopped stay stopped.
    func open(_ path: String, at stage: Stage) {
        state.withLock { _ = $0.stops.remove(Stop(path: path, stage: stage)) }
    }

    /// Stops no further requests there, and releases those that are stopped.
    func clear(_ path: String, at stage: Stage) {
        let stop = Stop(path: path, stage: stage)
        state.withLock { state in
            state.stops.remove(stop)
            for stopped in state.stopped where stopped.stop == stop {
                state.released[stopped.number] = .some(nil)
            }
            state.stopped.removeAll { $0.stop == stop }
        }
    }

    func stopped(_ path: String, at stage: Stage) -> Int {
        let stop = Stop(path: path, stage: stage)
        return state.withLock { $0.count(stop) }
    }

    /// Returns when that many requests are stopped there.
    func reached(
        _ path: String,
        at stage: Stage,
        count: Int = 1,
        fileID: String = #fileID,
        line: Int = #line
    ) async throws {
        let stop = Stop(path: path, stage: stage)
        try await state.wait(
            for: "\(count) requests to \(path), stopped at the \(stage)",
            found: { $0.summary },
            fileID: fileID,
            line: line
        ) {
            $0.count(stop) >= count
        }
    }

    /// Returns when no request is stopped there.
    func left(
        _ path: String,
        at stage: Stage,
        fileID: String = #fileID,
        line: Int = #line
    ) async throws {
        let stop = Stop(path: path, stage: stage)
        try await state.wait(
            for: "no request to \(path) stopped at the \(stage)",
            found: { $0.summary },
            fileID: fileID,
            line: line
        ) {
            $0.count(stop) == 0
        }
    }

    /// Releases the stopped request, by default the oldest; with an error it fails there.
    ///
    /// Waits until the request has arrived.
    func release(
        _ path: String,
        at stage: Stage,
        index: Int = 0,
        losing error: TransportError? = nil,
        fileID: String = #fileID,
        line: Int = #line
    ) async throws {
        let stop = Stop(path: path, stage: stage)
        try await reached(path, at: stage, count: index + 1, fileID: fileID, line: line)
        state.withLock { state in
            let there = state.stopped.indices.filter { state.stopped[$0].stop == stop }
            // It may have been cancelled in the meantime, and left by itself.
            guard there.indices.contains(index) else { return }
            state.released[state.stopped.remove(at: there[index]).number] = .some(error)
        }
    }

    private func pass(_ path: String, _ stage: Stage) async throws(TransportError) {
        let stop = Stop(path: path, stage: stage)
        let number = state.withLock { state -> Int? in
            guard state.stops.contains(stop) else { return nil }
            state.numbers += 1
            state.stopped.append(Stopped(number: state.numbers, stop: stop))
            return state.numbers
        }
        guard let number else { return }
        do {
            try await state.wait(for: "its release", within: TestingLimits.longestWait) {
                $0.released[number] != nil
            }
        } catch {
            state.withLock { $0.stopped.removeAll { $0.number == number } }
            throw .cancelled
        }
        if let error = state.withLock({ $0.released.removeValue(forKey: number) ?? nil }) {
            throw error
        }
    }

    func send(_ request: TransportRequest) async throws(TransportError) -> TransportResponse {
        let path = request.url.path()
        state.withLock { $0.requests.append(request) }
        try await pass(path, .request)
        let scripted = state.withLock { state -> TransportResponse? in
            guard state.scripted[path]?.isEmpty == false else { return nil }
            return state.scripted[path]?.removeFirst()
        }
        let response: TransportResponse
        if let scripted { response = scripted } else { response = try await server.send(request) }
        try await pass(path, .answer)
        return response
    }
}
