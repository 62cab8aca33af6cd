public import AlmanacSky
public import SanguineModel

/// Two persons who were compared.
public struct Match: SyncedRecord, Hashable {
    public static let collection = RecordCollection("matches")

    /// The id, which is also that of the thread with the explanations.
    public let id: RecordID
    public let groom: BirthData
    public let bride: BirthData
    /// The points, at most 36.
    public let points: Double

    public init(id: RecordID = .new(), groom: BirthData, bride: BirthData) {
        self.id = id
        (self.groom, self.bride) = (groom, bride)
        points = Compatibility(groom: groom, bride: bride).total
    }
}
