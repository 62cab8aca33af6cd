public import Foundation
import Synchronization

/// Performs an exchange whose response has no foreseeable end: a stream of events.
///
/// ``URLSessionTransport`` conforms to it. With a transport that does not, live data is polled
/// instead.
public protocol StreamingTransport: HTTPTransport {
    /// Sends a request and returns as soon as the head of the response has arrived, regardless of
    /// its status.
    ///
    /// ``TransportRequest/timeout`` bounds the time until then. The exchange ends when the stream
    /// is cancelled or released.
    ///
    /// - Throws: ``TransportError`` if there is no response.
    func stream(_ request: TransportRequest) async throws(TransportError) -> TransportStream
}

/// The body of a response while it arrives.
///
/// There is one reader. Data that it has not read yet is bounded: beyond the limit, the exchange
/// ends with ``TransportError/bodyTooLarge(limitBytes:)``.
///
/// Mutable state: `guarded`, protected by its mutex. The reader is resumed without holding it.
public final class TransportStream: Sendable {
    private struct Guarded {
        var waiting: CheckedContinuation<Data?, Never>?
        var arrived = Data()
        /// Set at the end of the body; contains the error if the exchange broke.
        var ending: Result<Void, TransportError>?
    }

    /// The status and headers; the body is empty.
    public let response: TransportResponse

    /// Signals whether there is room for more data.
    package let demand = StreamDemand()

    private let guarded = Mutex(Guarded())
    private let limitBytes: Int
    private let onCancel: @Sendable () -> Void

    /// Creates a stream without data.
    ///
    /// - Parameters:
    ///   - response: The status and headers.
    ///   - limitBytes: The maximum number of unread bytes. Default: 8 MiB.
    ///   - onCancel: Stops the exchange; called at most once.
    public init(
        response: TransportResponse,
        limitBytes: Int = ClientLimits.responseBytes,
        onCancel: @escaping @Sendable () -> Void
    ) {
        self.response = response
        self.limitBytes = limitBytes
        self.onCancel = onCancel
    }

    deinit {
        demand.end()
        if guarded.withLock({ $0.ending == nil }) { onCancel() }
    }

    /// Waits for the next bytes.
    ///
    /// Cancelling the task stops the exchange.
    ///
    /// - Returns: All bytes that have arrived; `nil` at the end of the body.
    /// - Throws: ``TransportError`` if the exchange broke or was cancelled.
    public func next() async throws(TransportError) -> Data? {
        let bytes = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let result = guarded.withLock { guarded -> Data?? in
                    if !guarded.arrived.isEmpty {
                        defer { guarded.arrived = Data() }
                        demand.empty()
                        return .some(guarded.arrived)
                    }
                    guard guarded.ending == nil else { return .some(nil) }
                    guarded.waiting = continuation
                    return .none
                }
                if let result { continuation.resume(returning: result) }
            }
        } onCancel: {
            cancel()
        }
        if let bytes { return bytes }
        try guarded.withLock { $0.ending ?? .success(()) }.get()
        return nil
    }

    /// Stops the exchange: the reader gets the error.
    ///
    /// - Parameter error: The error. Default: ``TransportError/cancelled``.
    public func cancel(_ error: TransportError = .cancelled) {
        if end(.failure(error)) { onCancel() }
    }

    /// Passes bytes to the reader; called by the transport as they arrive.
    public func receive(_ bytes: Data) {
        guard !bytes.isEmpty else { return }
        let (waiting, isTooMuch) = guarded.withLock {
            guarded -> (CheckedContinuation<Data?, Never>?, Bool) in
            guard guarded.ending == nil else { return (nil, false) }
            if let waiting = guarded.waiting {
                guarded.waiting = nil
                return (waiting, false)
            }
            guarded.arrived.append(bytes)
            demand.fill()
            return (nil, guarded.arrived.count > limitBytes)
        }
        waiting?.resume(returning: bytes)
        if isTooMuch { cancel(.bodyTooLarge(limitBytes: limitBytes)) }
    }

    /// Ends the body; called by the transport.
    ///
    /// - Parameter error: The reason why the body is incomplete; `nil` if it is complete.
    public func finish(_ error: TransportError? = nil) {
        _ = end(error.map { .failure($0) } ?? .success(()))
    }

    private func end(_ ending: Result<Void, TransportError>) -> Bool {
        let (isFirst, waiting) = guarded.withLock {
            guarded -> (Bool, CheckedContinuation<Data?, Never>?) in
            guard guarded.ending == nil else { return (false, nil) }
            guarded.ending = ending
            // The unread part of an incomplete body is useless.
            if case .failure = ending { guarded.arrived = Data() }
            defer { guarded.waiting = nil }
            return (true, guarded.waiting)
        }
        if isFirst { demand.end() }
        waiting?.resume(returning: nil)
        return isFirst
    }
}
