import AssistantModel
public import Observation
public import Sanguine

/// What the app's screen shows, and what its buttons do.
@MainActor
@Observable
public final class AssistantScreen {
    /// A question, and its answer while it is made.
    public struct Turn: Identifiable, Sendable {
        /// The call's key.
        public let id: String
        public let question: String
        public let answer: AnswerModel<String>
    }

    /// The balance as all parts of the app ask for it: as old as two minutes, or more if it really
    /// changes seldom.
    public nonisolated static let balanceQuery = ValueQuery<Balance>.balance(
        adaptingWithin: .minutes(2) ... .minutes(10)
    )

    private let client: SanguineClient
    private let shown: ValueModel<Balance>
    /// What was asked, the newest last.
    public private(set) var turns: [Turn] = []

    public init(_ client: SanguineClient) {
        self.client = client
        shown = client.model(Self.balanceQuery)
    }

    // MARK: - What is shown

    /// What the user may spend, calls in flight taken off; there in the first frame.
    public var balance: Balance? { shown.value }

    /// Since when that is known: what a view shows as its age without a network.
    public var balanceAsOf: Timestamp? { shown.asOf }

    /// The last ten balances that the server gave.
    public var history: [RecordedBalance] { client.balanceHistory }

    /// What another question in words will probably cost.
    public var cost: PredictedCost { client.predictedCost(of: AskText.self) }

    // MARK: - What a tap does

    /// Asks; the deduction is in ``balance`` when this returns.
    @discardableResult
    public func ask(_ question: String) throws -> AnswerModel<String> {
        try begin(question, AskText(question))
    }

    /// Asks about pictures.
    @discardableResult
    public func ask(
        _ question: String,
        about images: [RequestBody]
    ) async throws -> AnswerModel<String> {
        var ids: [String] = []
        for image in images { ids.append(try await client.upload(image).id) }
        return try begin(question, AskImage(question, about: ids))
    }

    /// Asks about a video.
    @discardableResult
    public func ask(
        _ question: String,
        about video: RequestBody
    ) async throws -> AnswerModel<String> {
        let id = try await client.upload(video).id
        return try begin(question, AskVideo(question, about: id))
    }

    /// Pull to refresh.
    public func refresh() async { await shown.refresh() }

    /// The answers that were on their way when the app ended, each from its first part on.
    public func resume() {
        for call in client.openCalls where !turns.contains(where: { $0.id == call.key }) {
            // All three answer with a text.
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
