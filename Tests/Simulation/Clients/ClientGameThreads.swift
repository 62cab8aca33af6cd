import Sanguine
import SanguineAuthority
import SanguineModel
import SanguineTesting

/// The threads of a game: calls in them, and what readers must see.
///
/// All text of a person begins with their name, and each question is asked once, so that a reader
/// can tell whose message it is, and whether it is shown twice.
final class ClientGameThreads {
    private unowned let game: ClientGame
    /// The threads of each person, without those that were deleted.
    private var known: [Person: [RecordID]] = [:]
    /// The threads that were deleted on each device.
    private var deleted: [Int: Set<RecordID>] = [:]
    /// The threads that were deleted on any device, even by a process that died then.
    private var gone: Set<RecordID> = []
    /// The thread of each question.
    private var asked: [String: RecordID] = [:]
    /// The newest stream of each process.
    private var streams: [Int: FunctionStream<String>] = [:]

    init(_ game: ClientGame) { self.game = game }

    private func client(_ index: Int) -> SanguineClient { game.devices[index].process.client }

    private func person(_ index: Int) -> Person? {
        client(index).accountId.flatMap { game.network.person($0) }
    }

    /// The beginning of all text of a person.
    private func mark(_ person: Person) -> String { "\(person.rawValue) asks " }

    // MARK: - Events

    /// Plays an event of a device's threads.
    func event(_ index: Int) {
        guard game.devices[index].leaving == nil, let person = person(index) else { return }
        switch Int.random(in: 0..<20, using: &game.random) {
        case 0..<11: ask(index, person)
        case 11..<15: change(index, person)
        case 15: delete(index, person)
        case 16, 17: cancel(index)
        case 18: follow(index, person)
        default:
            game.note("the server breaks all connections")
            game.count(.serverDeath)
            game.network.breakConnections()
        }
    }

    private func ask(_ index: Int, _ person: Person) {
        let (client, calls) = (client(index), game.devices[index].process.calls)
        let isNew = known[person, default: []].isEmpty || game.chance(4)
        let thread =
            isNew ? newThread(of: person) : known[person]?.randomElement(using: &game.random)
        guard let thread else { return }
        let kind = Int.random(in: 0..<3, using: &game.random)
        let end = kind > 0 && game.chance(4) ? " \(GameTell.failure)" : ""
        let text = "\(mark(person))\(game.step)\(end)"
        game.note("device \(index) asks '\(text)' in \(thread), \(kind)")
        game.count(.threadCall)
        game.restores[text] = 0
        asked[text] = thread
        if kind == 1 { return tell(text, thread, index) }
        calls.begin()
        Task { [answered = game.answered, account = client.accountId] in
            defer { calls.end() }
            // The task may start after another person has taken the device.
            guard client.accountId == account else { return }
            let output =
                kind == 0
                ? try? await client.call(GameAsk(input: text), in: thread)
                : try? await client.call(GameFreeAsk(input: text), in: thread)
            if output != nil { answered.add(text) }
        }
    }

    private func newThread(of person: Person) -> RecordID {
        let thread = RecordID(Identifier(at: game.wall.now(), using: &game.random))
        known[person, default: []].append(thread)
        return thread
    }

    private func tell(_ text: String, _ thread: RecordID, _ index: Int) {
        let process = game.devices[index].process
        let begun = Result { try process.client.stream(GameTell(input: text), in: thread) }
        guard let stream = try? begun.get() else { return game.note("which is refused") }
        streams[process.number] = stream
        process.calls.begin()
        Task { [answered = game.answered, calls = process.calls] in
            do {
                for try await _ in stream {}  // tidy: allow unbounded-wait: the game delivers.
                _ = try await stream.result  // tidy: allow unbounded-wait: the game delivers.
                answered.add(text)
            } catch {
                // It was cancelled, or its process is over.
            }
            calls.end()
        }
    }

    private func cancel(_ index: Int) {
        guard let stream = streams.removeValue(forKey: game.devices[index].process.number) else {
            return
        }
        game.note("device \(index) cancels a stream")
        game.count(.streamCut)
        Task { _ = try? await stream.cancel() }
    }

    private func change(_ index: Int, _ person: Person) {
        guard let thread = known[person]?.randomElement(using: &game.random) else { return }
        let text = "\(mark(person))\(game.step)"
        let isTitle = game.chance(2)
        game.note("device \(index) changes the thread \(thread)")
        let threads = client(index).threads
        let receipt =
            isTitle
            ? try? threads.rename(thread, to: text)
            : try? threads.set(thread, area: text, settings: ["by": .string(text)])
        guard receipt != nil else { return game.note("which is not there") }
        game.count(.threadChange)
    }

    private func delete(_ index: Int, _ person: Person) {
        guard let thread = known[person]?.randomElement(using: &game.random) else { return }
        game.note("device \(index) deletes the thread \(thread)")
        let receipt = try? client(index).threads.delete(thread)
        known[person]?.removeAll { $0 == thread }
        gone.insert(thread)
        guard receipt != nil, game.devices[index].process.remains == nil else { return }
        deleted[index, default: []].insert(thread)
        game.count(.threadDeletion)
    }

    /// Reads a thread as a view does that appears and disappears.
    private func follow(_ index: Int, _ person: Person) {
        guard let thread = known[person]?.randomElement(using: &game.random) else { return }
        let client = client(index)
        game.note("device \(index) shows the thread \(thread)")
        Task { @MainActor in
            let model = client.threads.model(of: thread)
            _ = try? await model.refresh()
        }
    }

    // MARK: - Checks

    /// Checks what a device shows of threads.
    func check(_ index: Int) throws {
        let (threads, person) = (client(index).threads, person(index))
        let list = threads.list()
        guard Set(list.map(\.id)).count == list.count else {
            throw game.finding("No flicker: device \(index) shows a thread twice")
        }
        var digest = ""
        for thread in list {
            let messages = threads.messages(of: thread.id, limit: MessageLimits.window)
            try checkOwner(of: thread, messages, person, index)
            try checkOrder(messages, in: thread, index)
            digest += " \(thread.title ?? "-") \(messages.map { "\($0.text) \($0.phase)" })"
        }
        game.note(digest, isQuiet: true)
        for thread in deleted[index] ?? [] {
            let messages = threads.messages(of: thread)
            guard !messages.isEmpty || list.contains(where: { $0.id == thread }) else { continue }
            throw game.finding("device \(index) shows the thread \(thread), which it has deleted")
        }
    }

    private func checkOwner(
        of thread: ChatThread,
        _ messages: [ThreadMessage],
        _ person: Person?,
        _ index: Int
    ) throws {
        let texts = [thread.title, thread.area].compactMap { $0 } + messages.map(\.text)
        let other = texts.first { text in
            !text.isEmpty && person.map { !text.hasPrefix(mark($0)) } ?? true
        }
        guard let other else { return }
        let who = person?.rawValue ?? "nobody"
        throw game.finding("No leak: device \(index) shows \(who) '\(other)'")
    }

    /// Checks that each answer follows its question, and that no message is shown twice.
    private func checkOrder(
        _ messages: [ThreadMessage],
        in thread: ChatThread,
        _ index: Int
    ) throws {
        guard Set(messages.map(\.id)).count == messages.count else {
            throw game.finding("No flicker: device \(index) shows a message of \(thread.id) twice")
        }
        let questions = messages.filter { $0.role == .user }.map(\.text)
        guard Set(questions).count == questions.count else {
            throw game.finding("Exactly once: device \(index) shows the questions \(questions)")
        }
        var last: ThreadMessage?
        for message in messages {
            defer { last = message }
            if let last, last.record.position >= message.record.position {
                throw game.finding("device \(index) shows '\(message.text)' after '\(last.text)'")
            }
            guard message.role == .assistant else { continue }
            guard last?.role == .user, last?.record.call == message.record.call else {
                throw game.finding("device \(index) shows '\(message.text)' without its question")
            }
        }
    }

    // MARK: - The end

    /// Lets all calls end and the server remove the messages of deleted threads, and checks what it
    /// has.
    func rest() throws {
        let clients = game.devices.map(\.process.client)
        try game.until(
            "the ends of all calls in threads",
            asking: {
                for client in clients { _ = try? await client.refresh(.balance) }
            },
            { isDone() }
        )
        let authority = game.network.authority
        try game.run("the removal of deleted threads") {
            _ = try? await authority.authority.removeDeletedThreads(limit: 1_000)
        }
        for person in Person.allCases {
            guard let account = game.network.account(person) else { continue }
            let threads = authority.records(ChatThread.self, of: account)
            let messages = authority.records(ChatMessage.self, of: account)
            try check(messages, of: threads)
            let questions = Set(messages.filter { $0.role == .user }.map(\.text))
            let lost = game.answered.all.sorted().first { text in
                guard let thread = asked[text], !gone.contains(thread) else { return false }
                return text.hasPrefix(mark(person)) && !questions.contains(text)
            }
            if let lost { throw game.finding("Nothing lost: '\(lost)' has no message") }
        }
    }

    /// Whether no call is running or waiting, so that each device knows the balance and the holds.
    private func isDone() -> Bool {
        let authority = game.network.authority
        for index in game.devices.indices {
            let client = client(index)
            guard let account = client.accountId, let shown = client.cached(.balance) else {
                return false
            }
            let kept = authority.balance(of: account)
            guard shown.available == kept.available, shown.held == kept.held else { return false }
        }
        let accounts = Person.allCases.compactMap { game.network.account($0) }
        return accounts.allSatisfy { account in
            authority.records(ChatMessage.self, of: account).allSatisfy { $0.state != .making }
        }
    }

    private func check(_ messages: [ChatMessage], of threads: [ChatThread]) throws {
        for (id, messages) in Dictionary(grouping: messages, by: \.thread) {
            guard let thread = threads.first(where: { $0.id == id }) else {
                throw game.finding("the server keeps \(messages.count) messages of no thread")
            }
            guard thread.messages == messages.count else {
                throw game.finding("\(id) counts \(thread.messages) of \(messages.count) messages")
            }
        }
        for (call, pair) in Dictionary(grouping: messages, by: \.call) {
            let roles = pair.sorted { $0.position < $1.position }.map(\.role)
            guard roles == [.user, .assistant] else {
                throw game.finding("Exactly once: the call \(call ?? "") has \(roles)")
            }
        }
        let prices = [0, GameAsk.price, GameAsk.expectedCost]
        for answer in messages where answer.role == .assistant {
            let isFree = answer.state == .failed
            guard let charged = answer.charged, isFree ? charged == 0 : prices.contains(charged)
            else {
                throw game.finding("'\(answer.text)' is \(answer.state), \(answer.charged ?? -1)")
            }
        }
    }

    /// Lets a device show the server's threads and messages.
    func converge(_ index: Int) throws {
        let client = client(index)
        do {
            try game.until(
                "device \(index) shows the server's threads",
                asking: {
                    _ = try? await client.refresh(.balance)
                    _ = try? await client.synchronize()
                },
                { difference(index) == nil }
            )
        } catch let finding as ClientGameFinding {
            guard finding.detail.hasPrefix("timed out"), let difference = difference(index) else {
                throw finding
            }
            throw game.finding("Convergence: device \(index): \(difference)")
        }
    }

    /// Returns how a device's threads differ from the server's; `nil` if they are the same.
    private func difference(_ index: Int) -> String? {
        let (client, authority) = (client(index), game.network.authority)
        guard let account = client.accountId else { return "no user is signed in" }
        let threads = authority.records(ChatThread.self, of: account).sorted {
            ($1.lastMessageAt, $1.id) < ($0.lastMessageAt, $0.id)
        }
        let shown = client.threads.list()
        if shown != threads { return "it shows the threads \(shown), and not \(threads)" }
        let stored = authority.records(ChatMessage.self, of: account)
        for (id, messages) in Dictionary(grouping: stored, by: \.thread) {
            let kept = messages.sorted { $0.position < $1.position }
            let shown = client.threads.messages(of: id, limit: MessageLimits.window).map(\.record)
            if shown != kept { return "it shows the messages \(shown), and not \(kept)" }
        }
        return nil
    }
}
