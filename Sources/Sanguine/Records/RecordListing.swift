import Foundation
public import SanguineModel

/// A list of records that the server selects and orders, such as the posts of all users.
///
/// ```swift
/// extension RecordListing<Song> {
///     static var newest: Self { Self().ordered(by: Song.byCreatedAt, descending: true) }
///     static func songs(of album: RecordID) -> Self { newest.where(Song.byAlbum, is: album) }
/// }
/// ```
///
/// ```swift
/// let feed = client.model(.published(RecordListing<Song>.newest))
/// ```
///
/// The collection must declare the indexes. Without an order, records are ordered by id.
public struct RecordListing<R: SyncedRecord>: Hashable, Sendable {
    private var parameters: [String: String] = [:]
    /// The required values of indexed members.
    private(set) var conditions: [String: JSONValue] = [:]
    /// The indexed member to order by; `nil` orders by id, or by a search.
    private(set) var order: Order?
    /// The timeline that the list shows; `nil` for the records of all authors.
    private(set) var timeline: RecordTimeline?
    /// Whether the list has only the records that a search finds.
    private(set) var isSearch = false
    /// The collections of which a change makes the list stale.
    private(set) var collections: Set<String> = [R.collection.name]

    /// An order by the value of a member.
    struct Order: Hashable, Sendable {
        let field: String
        let isDescending: Bool
    }

    /// Creates the list of all records that the user may read.
    public init() {}

    /// Returns the list with only the records whose member has the value.
    public func `where`<Value: IndexValue>(_ index: RecordIndex<R, Value>, is value: Value) -> Self
    {
        var listing = with("where.\(index.field)", value.json.parameter)
        listing.conditions[index.field] = value.json
        return listing
    }

    /// Returns the list in the order of a member, and among equal values of the id.
    public func ordered<Value: IndexValue>(
        by index: RecordIndex<R, Value>,
        descending: Bool = false
    ) -> Self {
        var listing = with("order", (descending ? "-" : "") + index.field)
        listing.order = Order(field: index.field, isDescending: descending)
        return listing
    }

    /// Returns the list with only the records whose text begins with `prefix`, regardless of case
    /// and accents, in the order of that text.
    ///
    /// The collection must declare the member in `search`. A list has one search and no other
    /// order.
    public func search(_ field: RecordField<R, String>, prefix: String) -> Self {
        var listing = with("prefix.\(field.name)", prefix)
        listing.isSearch = true
        return listing
    }

    /// Returns the listing of the newest records of the authors that the user follows.
    ///
    /// It has no conditions, order or search. The list also becomes stale when the user's follows
    /// change.
    ///
    /// - Parameter timeline: A timeline that the collection declares.
    /// - Returns: The listing.
    public static func timeline(_ timeline: RecordTimeline) -> Self {
        var listing = Self().with("timeline", timeline.name)
        listing.collections.insert(timeline.follows)
        listing.timeline = timeline
        listing.order = Order(field: "createdAt", isDescending: true)
        return listing
    }

    /// The query parameters, in the order of their names.
    var query: [URLQueryItem] {
        parameters.sorted { $0.key < $1.key }.map { URLQueryItem(name: $0.key, value: $0.value) }
    }

    /// The name of the list's query; a timeline has its own, because its dependencies differ from
    /// those of the collection's other lists.
    var name: String {
        let timeline = parameters["timeline"].map { ":\($0)" } ?? ""
        return PublishedRecords.prefix + R.collection.name + timeline
    }

    /// The text that identifies the list in the cache.
    var text: String {
        query.map { "\($0.name)=\($0.value ?? "")" }.joined(separator: "&")
    }

    func with(_ name: String, _ value: String) -> Self {
        var listing = self
        listing.parameters[name] = value
        return listing
    }
}

extension JSONValue {
    /// The value of a query parameter: a scalar in JSON.
    ///
    /// A string is sent without quotes unless it would be read as another value.
    fileprivate var parameter: String {
        guard case .string(let text) = self else { return encodedText }
        let looksLikeJSON = (try? JSONParser.parse(Array(text.utf8)).value) != nil
        return looksLikeJSON ? encodedText : text
    }

    private var encodedText: String { String(decoding: encoded, as: UTF8.self) }
}
