public import FeedModel
public import Observation
public import Sanguine

/// The state of the messages between the user and another one.
///
/// Messages are visible when ``send(_:)`` returns, also without a network. Those of the other user
/// arrive while the screen is shown.
@MainActor
@Observable
public final class ConversationScreen {
    private let client: SanguineClient
    private let other: RecordID
    private let list: ListModel<Message>?
    private let card: ValueModel<Card>

    /// Creates the screen, which shows what is cached.
    ///
    /// - Parameters:
    ///   - client: The app's client.
    ///   - other: The other user's profile.
    public init(_ client: SanguineClient, with other: RecordID) {
        (self.client, self.other) = (client, other)
        list = client.cached(.me).map { client.model(.messages($0.id, other)) }
        card = client.model(.card(other))
    }

    /// The other user's profile, as far as it is known.
    public var profile: Card? { card.value }

    /// The messages, the oldest first.
    public var messages: [Message] {
        let account = card.value?[Profile.account]
        return (list?.items ?? []).filter { isOwn($0) || $0.isFrom(other, account) }.reversed()
    }

    /// Whether there are earlier messages.
    public var hasMore: Bool { list?.hasMore ?? false }
    public var error: SanguineError? { list?.nextError ?? list?.error }

    /// Returns whether the user has sent a message.
    public func isOwn(_ message: Message) -> Bool { client.record(Message.self, message.id) != nil }

    /// Loads the messages and the other user's profile, unless they are fresh.
    public func load() async {
        async let profile = try? client.value(of: .card(other))
        await list?.refresh(force: false)
        _ = await profile
    }

    /// Loads earlier messages.
    public func loadNext() async { await list?.loadNext() }

    /// Sends a message.
    ///
    /// - Throws: ``FeedError`` without an own profile, or before the other user's is known.
    @discardableResult
    public func send(_ text: String) throws -> Receipt {
        guard let me = client.cached(.me) else { throw FeedError.noProfile }
        guard let account = client.cached(.card(other))?[Profile.account] else {
            throw FeedError.unknownProfile
        }
        let message = Message(id: .new(), text, from: me.id, to: other, reader: account)
        return try client.perform(Write(message))
    }
}
