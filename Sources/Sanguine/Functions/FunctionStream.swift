import Foundation
public import SanguineModel

/// The answer of a metered call while it is generated: its parts, and then its result.
///
/// ```swift
/// let stream = try client.stream(Ask(question: text))
/// for try await part in stream { answer += part }
/// let result = try await stream.result
/// ```
///
/// The call is sent at once. Parts are read when they are requested. At most
/// ``ClientLimits/responseBytes`` are buffered for a slow reader, which then continues on another
/// connection. After a broken connection the stream reconnects, and the parts continue where they
/// broke off: no part is missing, and none comes twice.
///
/// To stop reading, cancel the task or release the stream. The call itself continues, is charged
/// for, and can be found again by its ``key``, even from another device of the user. ``cancel()``
/// ends the call itself.
///
/// The call is in ``SanguineClient/openCalls`` until the app has read it to the end or has received
/// its ``result``: after an earlier crash, the app finds it there. An output that cannot be decoded
/// leaves the call open, for a version of the app that can decode it.
///
/// One task may read at a time. The type parameter is the output, so that one list can hold answers
/// of several functions.
public final class FunctionStream<Output: Codable & Sendable>: AsyncSequence, Sendable {
    /// A part of the answer's text.
    public typealias Element = String
    /// The reason why there are no more parts.
    public typealias Failure = SanguineError

    let stream: CallStream

    init(_ stream: CallStream) { self.stream = stream }

    /// The call's idempotency key, for ``SanguineClient/stream(of:key:)``.
    public var key: String { stream.key }

    /// The whole answer, including the charge; parts that were not read are skipped.
    ///
    /// - Throws: ``SanguineError``, as ``SanguineClient/call(_:)`` does: in `interrupted` and
    ///   `call_cancelled`, `charged` is the charge for the generated parts.
    public var result: FunctionResult<Output> {
        get async throws(SanguineError) {
            do throws(SanguineError) {
                let body = try await stream.body()
                await stream.resultRead(as: Output.self)
                return try WireCoding.decode(FunctionResult<Output>.self, from: body)
            } catch {
                await stream.resultRead(as: Output.self)
                throw error
            }
        }
    }

    /// Ends the call, and charges for the parts that were generated.
    ///
    /// A reader gets these parts, and then a problem `call_cancelled`. A call that has already
    /// ended does not change.
    ///
    /// - Returns: The charge, in the balance's unit.
    /// - Throws: ``SanguineError``: `operation_in_progress` for a call that cannot be stopped,
    ///   because its answer is generated in one piece.
    @discardableResult
    public func cancel() async throws(SanguineError) -> Int64 { try await stream.cancel() }

    /// Returns an iterator over the parts.
    public func makeAsyncIterator() -> Iterator { Iterator(stream: stream) }

    /// An iterator over the parts; a second one continues where the first ended.
    public struct Iterator: AsyncIteratorProtocol {
        fileprivate let stream: CallStream

        /// Returns the next part; `nil` after the last one.
        ///
        /// - Throws: ``SanguineError``: why there is no answer. ``SanguineError/cancelled`` if the
        ///   task is cancelled: a later read continues where this one ended.
        public mutating func next() async throws(SanguineError) -> String? {
            try await stream.next(as: Output.self)
        }

        /// Returns the next part; `nil` after the last one.
        ///
        /// - Parameter actor: Not used: parts are produced elsewhere.
        /// - Returns: The part.
        /// - Throws: ``SanguineError``, as ``next()`` does.
        public mutating func next(
            isolation actor: isolated (any Actor)?
        ) async throws(SanguineError) -> String? {
            try await stream.next(as: Output.self)
        }
    }
}
