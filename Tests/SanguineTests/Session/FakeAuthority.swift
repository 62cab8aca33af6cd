import Foundation
import SanguineModel
import SanguineTesting

@testable import Sanguine

/// A Sanguine server in the shape of a transport: devices, sessions that rotate, and a ledger.
///
/// A test stops requests at a stage of their way, waits until they are there, and lets them go on
/// or loses them. Nothing sleeps.
final class FakeAuthority: Transport {
    /// Where a request may be stopped.
    enum Stage: Hashable {
        /// Before the server has it.
        case request
        /// Between a call's hold and its settlement.
        case work
        /// After everything was done, before the client has the answer.
        case answer
    }

    struct Stop: Hashable {
        let path: String
        let stage: Stage
    }

    fileprivate struct Stopped {
        let number: Int
        let stop: Stop
    }

    struct State {
        var ledger = SimulatedLedger(available: 100)
        var devices: [String: (secret: String, account: Identifier)] = [:]
        /// Access tokens that are valid.
        var valid: Set<String> = []
        /// By refresh token: the account, and the token's successor once it was used.
        var refreshes: [String: (account: Identifier, successor: Session?)] = [:]
        var sessionsMade = 0
        var requests: [TransportRequest] = []
        /// Answers to give instead, by path, first in first out.
        var scripted: [String: [TransportResponse]] = [:]
        /// What a call costs and holds; whether its upstream fails.
        var cost: Int64 = 3
        var hold: Int64 = 3
        var upstreamFails = false
        fileprivate var stops: Set<Stop> = []
        fileprivate var stopped: [Stopped] = []
        /// By number: what becomes of those that were stopped.
        fileprivate var released: [Int: TransportError?] = [:]
        fileprivate var numbers = 0

        fileprivate func count(_ stop: Stop) -> Int { stopped.count { $0.stop == stop } }

        /// What there is, for who waits in vain.
        fileprivate var summary: String {
            let there = stopped.map { "\($0.stop.path) at the \($0.stop.stage)" }
            return "stopped are \(there), after \(requests.count) requests"
        }
    }

    private let state = WatchedState(State())

    func with<Value: Sendable>(_ body: (inout State) -> Value) -> Value {
        state.withLock { body(&$0) }
    }

    /// How many requests to the path were made.
    func count(_ path: String) -> Int {
        state.withLock { $0.requests.count { $0.url.path() == path } }
    }

    func requests(_ path: String) -> [TransportRequest] {
        state.withLock { $0.requests.filter { $0.url.path() == path } }
    }

    /// Answers the next request to the path with this problem.
    func refuse(_ path: String, _ problem: Problem) {
        let body = (try? WireCoding.encode(problem)) ?? Data()
        let response = TransportResponse(status: problem.status, body: body)
        state.withLock { $0.scripted[path, default: []].append(response) }
    }

    /// Rejects every access token given out so far.
    func expireTokens() { state.withLock { $0.valid = [] } }

    // MARK: Stopping

    func stop(_ path: String, at stage: Stage) {
        state.withLock { _ = $0.stops.insert(Stop(path: path, stage: stage)) }
    }

    /// Stops no further requests there; those that are stopped stay.
    func open(_ path: String, at stage: Stage) {
        state.withLock { _ = $0.stops.remove(Stop(path: path, stage: stage)) }
    }

    /// Stops no further requests there, and lets those go on that are stopped, if any.
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

    /// Returns when no request is stopped there any more.
    func left(
        _ path: String,
        at stage: Stage,
        fileID: String = #fileID,
        line: Int = #line
    ) async throws {
        let stop = Stop(path: path, stage: stage)
        try await state.wait(
            for: "no request to \(path) to be stopped at the \(stage)",
            found: { $0.summary },
            fileID: fileID,
            line: line
        ) {
            $0.count(stop) == 0
        }
    }

    /// Lets the stopped request go on, the oldest by default; with an error it is lost there.
    ///
    /// Waits until it is there.
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
            // It may have been cancelled since, and gone on by itself.
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

    // MARK: Serving

    func send(_ request: TransportRequest) async throws(TransportError) -> TransportResponse {
        let path = request.url.path()
        state.withLock { $0.requests.append(request) }
        try await pass(path, .request)
        let scripted = state.withLock { state -> TransportResponse? in
            guard state.scripted[path]?.isEmpty == false else { return nil }
            return state.scripted[path]?.removeFirst()
        }
        var response = scripted ?? state.withLock { $0.serve(request) }
        if response.status == 102 {
            // A call holds now. Whether the client stays or not, it is settled.
            var lost: TransportError?
            do { try await pass(path, .work) } catch { lost = error }
            response = state.withLock { $0.settle(request) }
            if let lost { throw lost }
        }
        try await pass(path, .answer)
        return response
    }
}
