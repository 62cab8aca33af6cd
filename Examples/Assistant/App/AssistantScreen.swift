import AssistantModel
public import Observation
public import Sanguine

/// The state of the app's screen and the actions of its buttons.
@MainActor
@Observable
public final class AssistantScreen {
    /// A question with its answer, which may still be in progress.
    public struct Turn: Identifiable, Sendable {
        /// The call's key.
        public let id: String
        public let question: String
        public let answer: AnswerModel<String>
    }

    /// The balance query of the whole app, with a freshness of two minutes, or more if the balance
    /// rarely changes.
    public nonisolated static let balanceQuery = ValueQuery<Balance>.balance(
        adaptingWithin: .minutes(2) ... .minutes(10)
    )

    private let client: SanguineClient
    private let shown: ValueModel<Balance>
    /// The questions so far, newest last.
    public private(set) var turns: [Turn] = []

    public init(_ client: SanguineClient) {
        self.client = client
        shown = client.model(Self.balanceQuery)
    }

    // MARK: - State

    /// The spendable balance, with running calls deducted, available in the first frame.
    public var balance: Balance? { shown.value }

    /// The time of the balance, from which a view computes its age when offline.
    public var balanceAsOf: Timestamp? { shown.asOf }

    /// The last ten balances from the server.
    public var history: [RecordedBalance] { client.balanceHistory }

    /// The predicted cost of another question in words.
    public var cost: PredictedCost { client.predictedCost(of: AskText.self) }

    // MARK: - Actions

    /// Asks a question.
    ///
    /// The deduction is in ``balance`` when this returns.
    @discardableResult
    public func ask(_ question: String) throws -> AnswerModel<String> {
        try begin(question, AskText(question))
    }

    /// Asks a question about pictures.
    @discardableResult
    public func ask(
        _ question: String,
        about images: [RequestBody]
    ) async throws -> AnswerModel<String> {
        var ids: [String] = []
        for image in images { ids.append(try await client.upload(image).id) }
        return try begin(question, AskImage(question, about: ids))
    }

    /// Asks a question about a video.
    @discardableResult
    public func ask(
        _ question: String,
        about video: RequestBody
    ) async throws -> AnswerModel<String> {
        let id = try await client.upload(video).id
        return try begin(question, AskVideo(question, about: id))
    }

    /// Refreshes the balance, for pull to refresh.
    public func refresh() async { await shown.refresh() }

    /// Resumes the answers that were in progress when the app ended, each from its first part.
    public func resume() {
        for call in client.openCalls where !turns.contains(where: { $0.id == call.key }) {
            // All three functions answer with a text.
            guard let answer = try? client.answer(to: AskText.self, key: call.key) else { continue }
            turns.append(Turn(id: call.key, question: question(of: call), answer: answer))
        }
    }

    private func question(of call: OpenCall) -> String {
        let asked =
            call.input(of: AskText.self) ?? call.input(of: AskImage.self)
            ?? call.input(of: AskVideo.self)
        return asked?.question ?? "…"
    }

    private func begin<Call: FunctionCall>(
        _ question: String,
        _ call: Call
    ) throws -> AnswerModel<String> where Call.Output == String {
        let answer = try client.answer(to: call)
        turns.append(Turn(id: answer.key, question: question, answer: answer))
        return answer
    }
}
