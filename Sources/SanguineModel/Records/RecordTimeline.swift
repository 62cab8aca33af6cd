/// A list of the newest records of the authors that an account follows.
///
/// ```swift
/// extension Song {
///     static let home = RecordTimeline("home", by: "singer", in: "follows", naming: "followed")
/// }
/// static let collection = RecordCollection(
///     "songs",
///     access: .everyone,
///     indexes: ["createdAt"],
///     owner: "singer",
///     timelines: [home]
/// )
/// ```
///
/// Each account has its own timeline: the server reads the account's records of ``follows``, and
/// merges the lists of the authors that they name. Nothing is written for followers when a record
/// is created. A page costs one look-up in an index for each followed author and for each of its
/// records, so an account follows at most ``WireLimits/followedAuthors``.
///
/// Users usually expect their own records in it: set ``includesOwn``.
public struct RecordTimeline: Hashable, Sendable {
    /// The name of the timeline in requests, unique in its collection.
    public let name: String
    /// The member of the collection's records that names their author, usually the owner.
    public let by: String
    /// The collection of the records that name the authors that their owner follows.
    public let follows: String
    /// The indexed member of these records with the id of the followed author.
    public let naming: String
    /// Whether the reader's own records are in the timeline, without following the own account.
    public let includesOwn: Bool

    /// Declares a timeline.
    ///
    /// - Parameters:
    ///   - name: The name in requests, unique in the collection: 1 to 64 of `a–z A–Z 0–9 _ -`.
    ///   - by: The member of the collection's records that names their author. It is the id of the
    ///     owner's account, or of anything that can be followed, such as a group.
    ///   - follows: The collection of the records that name the authors that their owner follows.
    ///     Only these records of the reader count, so the collection may be private.
    ///   - naming: The indexed member of these records with the id of the followed author.
    ///   - includesOwn: Whether the reader's own records are in the timeline, too. Then `by` is the
    ///     collection's `owner`. Default: no.
    public init(
        _ name: String,
        by: String,
        in follows: String,
        naming: String,
        includesOwn: Bool = false
    ) {
        self.name = name
        self.by = by
        self.follows = follows
        self.naming = naming
        self.includesOwn = includesOwn
    }

    var isPlain: Bool {
        [name, by, naming].allSatisfy { RecordCollection.isPlain(member: $0) }
            && RecordCollection.isValid(name: follows)
    }
}

extension RecordSchema {
    /// The indexed members of a collection that name followed authors for timelines.
    package func followedMembers(of collection: String) -> Set<String> {
        Set(
            allCollections.flatMap(\.timelines).filter { $0.follows == collection }.map(\.naming)
        )
    }

    /// The errors in the declarations of timelines, as sentences.
    var timelineFaults: [String] {
        declaredCollections.flatMap { collection in
            collection.timelines.compactMap { timeline in
                let follows = self.collection(timeline.follows)
                guard follows?.indexes.contains(timeline.naming) != true else { return nil }
                return """
                    Declare the collection '\(timeline.follows)' with an index on \
                    '\(timeline.naming)': the timeline '\(timeline.name)' of '\(collection.name)' \
                    reads it.
                    """
            }
        }
    }
}
