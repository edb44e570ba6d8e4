
2.21.0@2e40f5ad60248d40516c8bc4a68b988dc3d49611238aef0c625aab3dee36fe89"


opControlTrigger