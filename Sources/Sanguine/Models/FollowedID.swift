/// A target that depends on an id that may be temporary: a query or a list.
@MainActor
final class FollowedID<Target> {
    private var id: String
    private let replaced: (String) -> String?
    private let make: (String) -> Target

    /// - Parameters:
    ///   - id: The initial id.
    ///   - replaced: Returns the real id of a temporary one, if it is known.
    ///   - make: Creates the target of an id.
    init(
        _ id: String,
        replaced: @escaping (String) -> String?,
        make: @escaping (String) -> Target
    ) {
        (self.id, self.replaced, self.make) = (id, replaced, make)
    }

    /// Returns the target of the real id, if the current id was replaced.
    func next() -> Target? {
        guard let real = replaced(id), real != id else { return nil }
        id = real
        return make(real)
    }
}
