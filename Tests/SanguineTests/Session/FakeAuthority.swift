import Foundation
import SanguineModel
import Synchronization

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
        let goOn: CheckedContinuation<TransportError?, Never>
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
        fileprivate var cancelled: Set<Int> = []
        fileprivate var numbers = 0
    }

    private let state = Mutex(State())

    func with<Value: Sendable>(_ body: (inout sending State) -> sending Value) -> Value {
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

    func stopped(_ path: String, at stage: Stage) -> Int {
        let stop = Stop(path: path, stage: stage)
        return state.withLock { $0.stopped.count { $0.stop == stop } }
    }

    /// Returns when that many requests are stopped there.
    func reached(_ path: String, at stage: Stage, count: Int = 1) async {
        await eventually { self.stopped(path, at: stage) >= count }
    }

    /// Lets the stopped request go on, the oldest by default; with an error it is lost there.
    func release(
        _ path: String,
        at stage: Stage,
        index: Int = 0,
        losing error: TransportError? = nil
    ) {
        let stop = Stop(path: path, stage: stage)
        let stopped = state.withLock { state -> Stopped? in
            let there = state.stopped.indices.filter { state.stopped[$0].stop == stop }
            return there.indices.contains(index) ? state.stopped.remove(at: there[index]) : nil
        }
        stopped?.goOn.resume(returning: error)
    }

    private func pass(_ path: String, _ stage: Stage) async throws(TransportError) {
        let stop = Stop(path: path, stage: stage)
        let number = state.withLock { state -> Int? in
            guard state.stops.contains(stop) else { return nil }
            state.numbers += 1
            return state.numbers
        }
        guard let number else { return }
        let error = await withTaskCancellationHandler {
            await withCheckedContinuation { goOn in
                let isCancelled = state.withLock { state in
                    guard state.cancelled.remove(number) == nil else { return true }
                    state.stopped.append(Stopped(number: number, stop: stop, goOn: goOn))
                    return false
                }
                if isCancelled { goOn.resume(returning: .cancelled) }
            }
        } onCancel: {
            let stopped = state.withLock { state -> Stopped? in
                guard let index = state.stopped.firstIndex(where: { $0.number == number }) else {
                    state.cancelled.insert(number)
                    return nil
                }
                return state.stopped.remove(at: index)
            }
            stopped?.goOn.resume(returning: .cancelled)
        }
        if let error { throw error }
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

/// Lets other tasks run until the condition holds.
///
/// The suite's time limit ends a vain wait.
func eventually(_ condition: @Sendable () -> Bool) async {
    while !Task.isCancelled, !condition() { await Task.yield() }
}
