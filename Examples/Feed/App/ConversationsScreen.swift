public import FeedModel
public import Observation
public import Sanguine

/// The last message between the user and another one.
public struct Conversation: Identifiable, Sendable, Equatable {
    /// The other user's profile.
    public let id: RecordID
    public let last: Message
    public let isOwn: Bool
    /// The other user's profile, as far as it is known.
    public let profile: Card?
}

/// The state of the list of the user's conversations.
@MainActor
@Observable
public final class ConversationsScreen {
    private let client: SanguineClient
    private let list: ListModel<Message>
    @ObservationIgnored private var cards: [RecordID: ValueModel<Card>] = [:]

    /// Creates the screen, which shows what is cached.
    public init(_ client: SanguineClient) {
        self.client = client
        list = client.model(.newest)
    }

    /// The conversations, the one with the newest message first.
    ///
    /// A message that names another sender than its owner is not shown.
    public var conversations: [Conversation] {
        var known: Set<RecordID> = []
        return list.items.compactMap { message in
            let isOwn = client.record(Message.self, message.id) != nil
            let other = isOwn ? message.to : message.from
            guard !known.contains(other) else { return nil }
            let card = card(other)
            guard isOwn || message.isFrom(other, card?[Profile.account]) else { return nil }
            known.insert(other)
            return Conversation(id: other, last: message, isOwn: isOwn, profile: card)
        }
    }

    public var hasMore: Bool { list.hasMore }
    public var error: SanguineError? { list.nextError ?? list.error }

    /// Loads the messages, and the profiles of the other users in one request.
    public func load() async {
        await list.refresh(force: false)
        await withTaskGroup(of: Void.self) { [client] tasks in
            for id in Set(list.items.flatMap { [$0.from, $0.to] }) {
                tasks.addTask { _ = try? await client.value(of: .card(id)) }
            }
        }
    }

    /// Loads earlier messages.
    public func loadNext() async { await list.loadNext() }

    private func card(_ id: RecordID) -> Card? {
        let model = cards[id] ?? client.model(.card(id))
        cards[id] = model
        return model.value
    }
}
