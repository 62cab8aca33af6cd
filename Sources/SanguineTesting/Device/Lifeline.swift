import Foundation
import Sanguine
import Synchronization

/// A process's connection to the network, which is cut when the process is killed.
///
/// Responses are held back while the files of the killed process are read, so that it cannot record
/// on disk that it was cut off.
///
/// Mutable state: `state`, guarded by its mutex. Waits are ended, and tasks cancelled, outside of
/// it.
final class Lifeline: UploadingTransport {
    private enum Phase {
        case alive
        case frozen
        case dead
    }

    private struct State {
        var phase = Phase.alive
        var lastNumber = 0
        var waiting: [Int: AsyncStream<Never>.Continuation] = [:]
        var ends: [Int: @Sendable () -> Void] = [:]
    }

    private let state = Mutex(State())
    private let base: any HTTPTransport
    /// Keeps the files while the process, or a test, uses them.
    private let folder: DeviceFolder

    init(_ base: any HTTPTransport, folder: DeviceFolder) {
        self.base = base
        self.folder = folder
    }

    /// Stops all later traffic, in both directions.
    func freeze() { state.withLock { $0.phase = .frozen } }

    /// Ends all requests and streams.
    func cut() {
        let (waiting, ends) = state.withLock { state in
            state.phase = .dead
            defer { (state.waiting, state.ends) = ([:], [:]) }
            return (Array(state.waiting.values), Array(state.ends.values))
        }
        for end in ends { end() }
        for wait in waiting { wait.finish() }
    }

    func send(_ request: TransportRequest) async throws(TransportError) -> TransportResponse {
        try await run { base throws(TransportError) in try await base.send(request) }
    }

    func upload(
        _ request: TransportRequest,
        progress: @escaping @Sendable (UploadProgress) -> Void
    ) async throws(TransportError) -> TransportResponse {
        try await run { base throws(TransportError) in
            try await base.carry(request, progress: progress)
        }
    }

    fileprivate func stream(
        _ request: TransportRequest
    ) async throws(TransportError) -> TransportStream {
        let upstream = try await run { base throws(TransportError) in
            guard let base = base as? any StreamingTransport else {
                throw .invalid("the transport has no streams. Use a StreamingTransport.")
            }
            return try await base.stream(request)
        }
        let number = state.withLock { state in
            state.lastNumber += 1
            return state.lastNumber
        }
        let stream = TransportStream(response: upstream.response) { [weak self] in
            self?.release(number)
        }
        let pump = Task { [weak self, weak stream, room = stream.demand] in
            var ending: TransportError?
            do throws(TransportError) {
                while let bytes = try await upstream.next() {
                    // Neither is retained while the reader is slow.
                    guard try await self?.deliver(bytes, to: stream) == true else { break }
                    await room.wait()
                }
            } catch {
                ending = error
            }
            upstream.cancel()
            stream?.finish(ending)
            self?.release(number)
        }
        hold(number) { pump.cancel() }
        return stream
    }

    /// Passes bytes on; returns whether the stream still exists.
    private func deliver(
        _ bytes: Data,
        to stream: TransportStream?
    ) async throws(TransportError) -> Bool {
        try await passGate()
        stream?.receive(bytes)
        return stream != nil
    }

    // MARK: - The gate

    private func run<Value: Sendable>(
        _ body: @escaping @Sendable (any HTTPTransport) async throws(TransportError) -> Value
    ) async throws(TransportError) -> Value {
        try await passGate()
        let task = Task { [base] () -> Result<Value, TransportError> in
            do throws(TransportError) {
                return .success(try await body(base))
            } catch {
                return .failure(error)
            }
        }
        let number = state.withLock { state in
            state.lastNumber += 1
            return state.lastNumber
        }
        hold(number) { task.cancel() }
        let result = await withTaskCancellationHandler {
            await task.value
        } onCancel: {
            task.cancel()
        }
        state.withLock { _ = $0.ends.removeValue(forKey: number) }
        try await passGate()
        return try result.get()
    }

    /// Returns at once in a living process; in a dying one it waits for the end.
    private func passGate() async throws(TransportError) {
        let (death, continuation) = AsyncStream.makeStream(of: Never.self)
        let (phase, number) = state.withLock { state in
            state.lastNumber += 1
            if state.phase == .frozen { state.waiting[state.lastNumber] = continuation }
            return (state.phase, state.lastNumber)
        }
        if phase == .alive { return }
        if phase == .frozen { for await _ in death {} }
        state.withLock { _ = $0.waiting.removeValue(forKey: number) }
        throw .cancelled
    }

    /// Registers a closure that is called when the process ends.
    private func hold(_ number: Int, _ end: @escaping @Sendable () -> Void) {
        let isDead = state.withLock { state in
            if state.phase != .dead { state.ends[number] = end }
            return state.phase == .dead
        }
        if isDead { end() }
    }

    private func release(_ number: Int) {
        state.withLock { $0.ends.removeValue(forKey: number) }?()
    }
}

/// A lifeline for networks that support streams.
struct StreamingLifeline: StreamingTransport, UploadingTransport {
    let lifeline: Lifeline

    func send(_ request: TransportRequest) async throws(TransportError) -> TransportResponse {
        try await lifeline.send(request)
    }

    func upload(
        _ request: TransportRequest,
        progress: @escaping @Sendable (UploadProgress) -> Void
    ) async throws(TransportError) -> TransportResponse {
        try await lifeline.upload(request, progress: progress)
    }

    func stream(_ request: TransportRequest) async throws(TransportError) -> TransportStream {
        try await lifeline.stream(request)
    }
}
