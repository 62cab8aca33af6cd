import Foundation
public import SanguineModel

/// The answer of a metered call while it is made: its parts, and then its result.
///
/// ```swift
/// let stream = try client.stream(Ask(question: text))
/// for try await part in stream { answer += part }
/// let result = try await stream.result
/// ```
///
/// The call is sent at once. Parts are taken as they are asked for; at most
/// ``ClientLimits/responseBytes`` wait for a slow reader, who then reads on by another connection.
/// A connection that breaks is made again by itself, and the parts go on where they broke off: no
/// part is missing, and none comes twice.
///
/// To stop reading stops nothing else: cancel the task or let go of the stream, and the call goes
/// on, is charged for, and is found again by its ``key``, also by another device of the user.
/// ``cancel()`` ends the call itself.
///
/// The call is among ``SanguineClient/openCalls`` until the reader has come to its end, or has had
/// its ``result``: an app that is killed before finds it there. An output that cannot be decoded
/// leaves the call open, for a version of the app that can.
///
/// One task reads at a time. The type is that of the output, so that answers of several functions
/// stand in one list.
public final class FunctionStream<Output: Codable & Sendable>: AsyncSequence, Sendable {
    /// A part of the answer's text.
    public typealias Element = String
    /// Why there are no more parts.
    public typealias Failure = SanguineError

    let stream: CallStream

    init(_ stream: CallStream) { self.stream = stream }

    /// The call's idempotency key, by which ``SanguineClient/stream(of:key:)`` finds it again.
    public var key: String { stream.key }

    /// The whole answer, the charge among it; parts that were not read are passed over.
    ///
    /// - Throws: ``SanguineError``, as ``SanguineClient/call(_:)`` does: `interrupted` and
    ///   `call_cancelled` say in `charged` what was charged for the parts that were made.
    public var result: FunctionResult<Output> {
        get async throws(SanguineError) {
            do throws(SanguineError) {
                let body = try await stream.body()
                await stream.given(as: Output.self)
                return try WireCoding.decode(FunctionResult<Output>.self, from: body)
            } catch {
                await stream.given(as: Output.self)
                throw error
            }
        }
    }

    /// Ends the call, and charges for what was made.
    ///
    /// Whoever reads gets the parts that were made, and then a problem `call_cancelled`. A call
    /// that had ended before stays as it ended.
    ///
    /// - Returns: What the call was charged, in the balance's unit.
    /// - Throws: ``SanguineError``: `operation_in_progress` for a call that cannot be stopped,
    ///   because it comes in one piece and is being made.
    @discardableResult
    public func cancel() async throws(SanguineError) -> Int64 { try await stream.cancel() }

    /// Reads the parts.
    public func makeAsyncIterator() -> Iterator { Iterator(stream: stream) }

    /// Reads the parts; a second one goes on where the first has ended.
    public struct Iterator: AsyncIteratorProtocol {
        fileprivate let stream: CallStream

        /// The next part; `nil` after the last one.
        ///
        /// - Throws: ``SanguineError``: why there is no answer. ``SanguineError/cancelled`` if the
        ///   task is cancelled: who reads then goes on where this ended.
        public mutating func next() async throws(SanguineError) -> String? {
            try await stream.next(as: Output.self)
        }

        /// The next part; `nil` after the last one.
        ///
        /// - Parameter actor: Not used: parts are made elsewhere.
        /// - Returns: The part.
        /// - Throws: As ``next()`` does.
        public mutating func next(
            isolation actor: isolated (any Actor)?
        ) async throws(SanguineError) -> String? {
            try await stream.next(as: Output.self)
        }
    }
}
