import Foundation
import SanguineModel

/// Has a function make a title for a thread after its first answer.
///
/// The function is called for the account and at its own price, under a key that derives from the
/// thread: a thread causes at most one charge, with the labels of the call that was answered. If it
/// fails, or the server stops, later answers of the thread try again, see ``isDue(at:)``. The call
/// of the answer never waits for it.
struct TitleMaker: Sendable {
    let runner: CallRunner
    /// The name of the function.
    let function: String
    let identity: Identity
    let address: String?
    /// The labels of its charge.
    ///
    /// Default: none.
    var labels = ChargeLabels()

    private var authority: Authority { runner.services.authority }

    /// Starts to make a title, unless the thread has one.
    func begin(for thread: Identifier) {
        guard !runner.services.calls.isStopped else { return }
        // Intentionally unstructured: the answer does not wait for it.
        Task { try? await makeTitle(for: thread) }
    }

    /// Makes a title, unless the thread has one.
    ///
    /// - Throws: The failure of the function, or of the storage.
    func makeTitle(for thread: Identifier) async throws(Problem) {
        let id = RecordID(thread)
        guard let stored = try await authority.thread(id, of: identity.account),
            stored.title == nil, Self.isDue(at: stored.messages),
            let function = runner.functions().first(where: { $0.name == function })
        else { return }
        let messages = try await ThreadHistory(authority: authority)
            .last(Self.messages, of: id, identity.account)
        guard let pair = Self.firstPair(of: messages) else { return }
        let texts = ["question": pair.question.text, "answer": pair.answer.text]
        let known = Set(function.inputs.keys.map { $0.hasSuffix("?") ? String($0.dropLast()) : $0 })
        let input = texts.filter { known.isEmpty || known.contains($0.key) }
            .mapValues { JSONValue.string(String($0.prefix(Self.characters))) }
        let key = "title:\(thread)"
        var submission = Submission<FunctionRequest<JSONValue>>(
            key: key,
            fingerprint: Fingerprint(key),
            content: .success(FunctionRequest(input: .object(input)))
        )
        submission.labels = labels
        let reply = try await runner.call(function, identity, address, submission, .plain)
        guard case .answer(let answer, _) = reply, answer.stored.status == 200,
            let body = try? JSONParser.parse(answer.stored.body, limits: .tolerant).value,
            let title = Self.title(body["output"]?.string ?? "")
        else { return }
        try await authority.setTitle(title, of: id, identity.account)
    }

    /// Returns whether an answer of a thread tries to make its title.
    ///
    /// The first answers do, and then those at 16, 32, 64 messages and so on. So a function that
    /// fails for long is called 17 times in a thread of 100,000 messages.
    ///
    /// - Parameter messages: The number of messages of the thread.
    /// - Returns: Whether it does.
    static func isDue(at messages: Int) -> Bool {
        messages <= Self.messages || messages & (messages - 1) == 0
    }

    /// Returns the first answered question among the messages.
    ///
    /// - Parameter messages: The last messages of a thread, the newest first.
    /// - Returns: The question and its answer, or `nil` if there are none.
    private static func firstPair(
        of messages: [ChatMessage]
    ) -> (question: ChatMessage, answer: ChatMessage)? {
        let all = Array(messages.reversed())
        for (question, answer) in zip(all, all.dropFirst())
        where answer.role == .assistant && answer.state == .complete
            && question.call == answer.call
        {
            return (question, answer)
        }
        return nil
    }

    /// Returns the title that an output contains, or `nil` if it contains none.
    ///
    /// Models often put a title in quotation marks, or add lines. What a title may not contain,
    /// such as a tab, is replaced by a space, and a title that is too long is shortened: it was
    /// paid for.
    static func title(_ output: String) -> String? {
        let marks = CharacterSet.whitespacesAndNewlines
            .union(CharacterSet(charactersIn: "\"“”„«»'*#"))
        let range = ThreadLimits.titleCharacters
        let title = output.split(whereSeparator: \.isNewline).lazy
            .map { line in
                // A title refuses the same characters.
                let plain = line.prefix(Self.characters).map {
                    String($0).isPlainText(of: 1...16) ? $0 : " "
                }
                return String(plain).trimmingCharacters(in: marks)
            }
            .first { !$0.isEmpty }
        guard var title = title.map({ String($0.prefix(range.upperBound)) }) else { return nil }
        while !title.isEmpty, !title.isPlainText(of: range) { title.removeLast() }
        return title.isEmpty ? nil : title
    }

    /// The number of messages of a thread until which each answer tries to make a title, and the
    /// number of the last messages from which a title is made.
    static let messages = 8
    /// The number of characters of the question and of the answer that the function receives.
    static let characters = 2_000
}
