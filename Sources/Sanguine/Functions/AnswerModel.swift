public import Observation
public import SanguineModel
import Synchronization

/// The answer of a metered call for a view: its text grows while it is made.
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
/// All parts of one moment come in one turn of the main actor. It reads until the end, or until its
/// last holder lets it go: then the call goes on by itself, and is found again by its ``key``. The
/// type is that of the output, so that answers of several functions stand in one list.
@MainActor
@Observable
public final class AnswerModel<Output: Codable & Sendable> {
    /// What a view shows beside the text.
    public enum Phase: Sendable, Hashable {
        /// No part is there yet.
        case waiting
        /// Parts are there, and more follow.
        case answering
        /// All of it is there; see ``AnswerModel/result``.
        case done
        /// There will be no more; see ``AnswerModel/error``.
        case failed
    }

    /// What is known, by whoever reads.
    private struct Known: Sendable {
        var text = ""
        var end: Result<FunctionResult<Output>, SanguineError>?
    }

    /// The call's idempotency key.
    @ObservationIgnored public let key: String
    /// The text that is there.
    public private(set) var text = ""
    /// What to show beside it.
    public private(set) var phase = Phase.waiting
    /// The whole answer, once it is there.
    public private(set) var result: FunctionResult<Output>?
    /// Why the language model stopped, once the answer is there: `stop` after a whole one, `length`
    /// or `content_filter` after a part of one; `nil` where the model does not say.
    public var finishReason: String? { result?.finishReason }
    /// Why there is no answer, or not all of it.
    public private(set) var error: SanguineError?

    @ObservationIgnored private let stream: FunctionStream<Output>
    @ObservationIgnored private var reading: Task<Void, Never>?
    /// Is resolved when the end is in the properties.
    @ObservationIgnored private let shown = OneShot<FunctionResult<Output>>()

    init(_ stream: FunctionStream<Output>, _ turn: MainTurn) {
        self.stream = stream
        key = stream.key
        let owner = turn.newOwner()
        let known = Guardian(Known())
        reading = Task.detached { [weak self, shown] in
            let tell = { @Sendable [weak self] in
                turn.schedule({ self?.show(known.value) }, for: owner)
            }
            let call = stream.stream
            do throws(SanguineError) {
                while let part = try await call.part() {
                    known.change { $0.text += part }
                    tell()
                }
                let result = try WireCoding.decode(
                    FunctionResult<Output>.self,
                    from: try await call.body()
                )
                known.change { $0.end = .success(result) }
            } catch {
                known.change { $0.end = .failure(error) }
            }
            tell()
            // Read means shown: a model that is released before leaves the call open.
            _ = try? await shown.value()
            if !Task.isCancelled { await call.given(as: Output.self) }
        }
    }

    deinit { reading?.cancel() }

    /// Ends the call, and charges for what was made.
    ///
    /// - Throws: ``SanguineError``, as ``FunctionStream/cancel()`` does.
    public func stop() async throws(SanguineError) { try await stream.cancel() }

    /// Waits for the whole answer, which is in ``result`` and ``text`` when this returns.
    ///
    /// - Returns: The answer, the charge among it.
    /// - Throws: ``SanguineError``: the model's ``error``; ``SanguineError/cancelled`` if the
    ///   calling task is cancelled, which ends the waiting and not the call.
    public func finished() async throws(SanguineError) -> FunctionResult<Output> {
        do throws(SanguineError) {
            let result = try await shown.value()
            await stream.stream.given(as: Output.self)
            return result
        } catch {
            if error != .cancelled { await stream.stream.given(as: Output.self) }
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

/// A value and its lock.
private final class Guardian<Value: Sendable>: Sendable {
    private let guarded: Mutex<Value>

    init(_ value: Value) { guarded = Mutex(value) }

    var value: Value { guarded.withLock { $0 } }

    func change(_ body: (inout Value) -> Void) { guarded.withLock { body(&$0) } }
}

extension SanguineClient {
    /// Calls a metered function, with its answer as an observable object for a view.
    ///
    /// - Returns: A new object for each call.
    /// - Throws: ``SanguineError`` if the call was not begun; then nothing was changed.
    @MainActor
    public func answer<Call: FunctionCall>(
        to call: Call
    ) throws(SanguineError) -> AnswerModel<Call.Output> {
        AnswerModel(try stream(call), device.turn)
    }

    /// The answer of a call that was made before, as an observable object for a view; see
    /// ``stream(of:key:)``.
    ///
    /// - Throws: ``SanguineError``: the problem with which the call failed, if that is known.
    @MainActor
    public func answer<Call: FunctionCall>(
        to call: Call.Type,
        key: String
    ) throws(SanguineError) -> AnswerModel<Call.Output> {
        AnswerModel(try stream(of: call, key: key), device.turn)
    }
}
