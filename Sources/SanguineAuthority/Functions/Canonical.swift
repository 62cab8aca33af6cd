import SanguineModel
extension JSONValue {
    var canonical: [UInt8] { AnswerEncoder.encode(self) }
}
