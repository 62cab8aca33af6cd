public import Observation
public import SanguineModel
import Synchronization

/// The answer of a metered call for a view: its text grows while it is generated.
///
/// ```swift
/// struct AnswerView: View {
///     @State var answer: AnswerModel<String>  // try client.answer(to: Ask(question: text))
///
///     var body: some View {
///         Text(answer.text)
///         if answer.phase == .answering { Button("Stop") { Task { await answer.stop() } } }
///     }
/// }
/// ```
///
/// Parts that arrive together are shown in one turn of the main actor. The model reads until the
/// end, or until it is released: then the call continues on its own and can be found again by its
/// ``key``. The type parameter is the output, so that one list can hold answers of several
/// functions.
@MainActor
@Observable
public final class AnswerModel<Output: Codable & Sendable> {
    /// The phase that a view shows along with the text.
    public enum Phase: Sendable, Hashable {
        /// No part has arrived yet.
        case waiting
        /// Parts have arrived, and more follow.
        case answering
        /// The whole answer has arrived; see ``AnswerModel/result``.
        case done
        /// No more parts will arrive; see ``AnswerModel/error``.
        case failed
    }

    /// The state that the reading task has received.
    private struct Known: Sendable {
        var text = ""
        var end: Result<FunctionResult<Output>, SanguineError>?
    }

    /// The call's idempotency key.
    @ObservationIgnored public let key: String
    /// The text that has arrived.
    public private(set) var text = ""
    /// The phase to show along with the text.
    public private(set) var phase = Phase.waiting
    /// The whole answer, once it has arrived.
    public private(set) var result: FunctionResult<Output>?
    /// The reason why the language model stopped, once the answer has arrived: `stop` after a
    /// complete answer, `length` or `content_filter` after an incomplete one; `nil` if the model
    /// does not state one.
    public var finishReason: String? { result?.finishReason }
    /// The reason why the answer is missing or incomplete.
    public private(set) var error: SanguineError?

    @ObservationIgnored private let stream: FunctionStream<Output>
    @ObservationIgnored private var reading: Task<Void, Never>?
    /// Resolved when the properties show the end.
    @ObservationIgnored private let shown = OneShot<FunctionResult<Output>>()

    init(_ stream: FunctionStream<Output>, _ mainActorBatch: MainActorBatch) {
        self.stream = stream
        key = stream.key
        let owner = mainActorBatch.newOwner()
        let known = Guardian(Known())
        reading = Task.detached { [weak self, shown] in
            let tell = { @Sendable [weak self] in
                mainActorBatch.schedule({ self?.show(known.value) }, for: owner)
            }
            let call = stream.stream
            do throws(SanguineError) {
                while let part = try await call.part() {
                    known.update { $0.text += part }
                    tell()
                }
                let result = try WireCoding.decode(
                    FunctionResult<Output>.self,
                    from: try await call.body()
                )
                known.update { $0.end = .success(result) }
            } catch {
                known.update { $0.end = .failure(error) }
            }
            tell()
            // Read means shown: if the model is released earlier, the call stays open.
            _ = try? await shown.value()
            if !Task.isCancelled { await call.resultRead(as: Output.self) }
        }
    }

    deinit { reading?.cancel() }

    /// Ends the call, and charges for the parts that were generated.
    ///
    /// - Throws: ``SanguineError``; see ``FunctionStream/cancel()``.
    public func stop() async throws(SanguineError) { try await stream.cancel() }

    /// Waits for the whole answer, which is in ``result`` and ``text`` when this returns.
    ///
    /// - Returns: The answer, including the charge.
    /// - Throws: ``SanguineError``: the model's ``error``; ``SanguineError/cancelled`` if the
    ///   calling task is cancelled, which ends the wait but not the call.
    public func finished() async throws(SanguineError) -> FunctionResult<Output> {
        do throws(SanguineError) {
            let result = try await shown.value()
            await stream.stream.resultRead(as: Output.self)
            return result
        } catch {
            if error != .cancelled { await stream.stream.resultRead(as: Output.self) }
            throw error
        }
    }

    private func show(_ known: Known) {
        if text != known.text { text = known.text }
        switch known.end {
        case .success(let answer):
            result = answer
            phase = .done
            shown.resolve(.success(answer))
        case .failure(let reason):
            error = reason
            phase = .failed
            shown.resolve(.failure(reason))
        case nil:
            if phase != .answering, !known.text.isEmpty { phase = .answering }
        }
    }
}

/// A value guarded by a mutex.
private final class Guardian<Value: Sendable>: Sendable {
    private let guarded: Mutex<Value>

    init(_ value: Value) { guarded = Mutex(value) }

    var value: Value { guarded.withLock { $0 } }

    func update(_ body: (inout Value) -> Void) { guarded.withLock { body(&$0) } }
}
