import FeedModel
public import Observation
public import Sanguine

/// The profiles whose names begin with what the user types.
@MainActor
@Observable
public final class SearchScreen {
    private let client: SanguineClient
    private var list: ListModel<Card>?

    public init(_ client: SanguineClient) { self.client = client }

    /// The text that the user has typed.
    ///
    /// Each text has a list of its own: the request of the former one is cancelled.
    public var text = "" {
        didSet {
            guard text != oldValue else { return }
            list = text.isEmpty ? nil : client.model(.search(text))
        }
    }

    public var profiles: [Card] { list?.items ?? [] }
    public var hasMore: Bool { list?.hasMore ?? false }
    public var error: SanguineError? { list?.error }

    /// Loads the profiles that were found, unless they are fresh.
    public func load() async { await list?.refresh(force: false) }
    public func loadNext() async { await list?.loadNext() }
}
