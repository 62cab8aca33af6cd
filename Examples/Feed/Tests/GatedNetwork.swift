import Foundation
import Sanguine
import SanguineTesting
import TestSupport

/// The real network, recorded, which holds chosen requests until a test lets them pass.
///
/// Mutable state: `state`, guarded by its mutex.
final class GatedNetwork: StreamingTransport, UploadingTransport {
    private struct State {
        var isHeld: @Sendable (TransportRequest) -> Bool = { _ in false }
        var count = 0
        var held: [Int: TransportRequest] = [:]
        var arrived: [TransportRequest] = []
        var cancelled = 0
    }

    let recorded = RecordedNetwork()
    private let state = WatchedState(State())

    /// Holds later requests that fit.
    func hold(_ fits: @escaping @Sendable (TransportRequest) -> Bool) {
        state.withLock { ($0.isHeld, $0.arrived) = (fits, []) }
    }

    /// Lets all held requests pass, and later ones.
    func release() { state.withLock { ($0.isHeld, $0.held) = ({ _ in false }, [:]) } }

    /// Lets the held requests that fit pass.
    func release(_ fits: (TransportRequest) -> Bool) {
        state.withLock { state in state.held = state.held.filter { !fits($0.value) } }
    }

    /// The held requests and the earlier ones that would have been held, in the order of sending.
    var arrived: [TransportRequest] { state.value.arrived }

    /// The number of held requests that their senders have cancelled.
    var cancelled: Int { state.value.cancelled }

    /// Waits for a number of held requests.
    func waitForHeld(_ count: Int) async throws {
        try await state.wait(
            for: "\(count) held requests",
            found: { "held: \($0.held.values.map(\.line))" }
        ) { $0.held.count >= count }
    }

    // MARK: - Transport

    func send(_ request: TransportRequest) async throws(TransportError) -> TransportResponse {
        try await pass(request)
        return try await recorded.send(request)
    }

    func upload(
        _ request: TransportRequest,
        progress: @escaping @Sendable (UploadProgress) -> Void
    ) async throws(TransportError) -> TransportResponse {
        try await pass(request)
        return try await recorded.upload(request, progress: progress)
    }

    func stream(_ request: TransportRequest) async throws(TransportError) -> TransportStream {
        try await recorded.stream(request)
    }

    private func pass(_ request: TransportRequest) async throws(TransportError) {
        let number = state.withLock { state -> Int? in
            guard state.isHeld(request) else { return nil }
            state.count += 1
            state.held[state.count] = request
            state.arrived.append(request)
            return state.count
        }
        guard let number else { return }
        do {
            try await state.wait(for: "the gate", within: TestingLimits.longestWait) {
                $0.held[number] == nil
            }
        } catch {
            state.withLock { state in
                state.held[number] = nil
                state.cancelled += 1
            }
            throw .cancelled
        }
    }
}

extension TransportRequest {
    /// Returns whether the request asks for a file of the server, in a size if one is named.
    func isForFile(side: Int? = nil) -> Bool {
        guard url.path().hasPrefix("/v1/blobs/") else { return false }
        return side.map { url.query()?.contains("w=\($0)") == true } ?? true
    }

    /// Returns whether the request asks for records of a collection.
    func isForRecords(of collection: String) -> Bool {
        url.path() == "/v1/collections/\(collection)/records"
    }
}
